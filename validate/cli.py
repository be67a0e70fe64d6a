"""``perfmodel validate``: everything that needs a clock or a measurement."""

import typer

from validate import cli_calibrate, cli_measure
from validate.cli_generate import generate

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Measure, calibrate and compare against a clock.",
)  # fmt: skip
app.command()(generate)
cli_measure.register(app)
cli_calibrate.register(app)
