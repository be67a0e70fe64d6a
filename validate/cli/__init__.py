"""``perfmodel validate``: everything that needs a measurement."""

from perfmodel.cli.catalogue import Verbs
from perfmodel.cli.options import App
from perfmodel.validate.cli.acceptance import acceptance
from perfmodel.validate.cli.accuracy import accuracy, history
from perfmodel.validate.cli.calibrate import calibrate
from perfmodel.validate.cli.check import check
from perfmodel.validate.cli.compare import compare
from perfmodel.validate.cli.engine import engine
from perfmodel.validate.cli.generate import generate
from perfmodel.validate.cli.measure import finish, measure, microbench, plans, report
from perfmodel.validate.cli.run import run

app = App(
    cls=Verbs, no_args_is_help=True, help="Measure, calibrate and compare predictions with measurements."
)
for verb in (
    generate,
    measure,
    microbench,
    run,
    finish,
    report,
    plans,
    acceptance,
    engine,
    compare,
    calibrate,
    check,
    accuracy,
    history,
):
    app.command()(verb)
