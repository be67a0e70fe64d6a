"""``perfmodel validate``: everything that needs a clock or a measurement."""

import typer

from perfmodel.cli.catalogue import Verbs
from perfmodel.validate.cli import calibrate, measure
from perfmodel.validate.cli.acceptance import acceptance
from perfmodel.validate.cli.generate import generate

app = typer.Typer(
    cls=Verbs, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Measure, calibrate and compare against a clock.",
)  # fmt: skip
app.command()(generate)
measure.register(app)
app.command()(acceptance)
calibrate.register(app)
