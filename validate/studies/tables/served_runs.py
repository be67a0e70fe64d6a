"""Tables of served runs: the errors of latency and throughput under load, by study and by kind of fold."""

from perfmodel.validate.studies.tables.cells import IN_INTERVAL, Record, Rows, figures, percent
from perfmodel.validate.studies.traffic_figures import FIGURES as SERVED

SERVED_HEAD = (
    *("runs", "sources", *(f"{name} %" for name in SERVED.values()), "TPOT bias %", "growth of TPOT %"),
    *(f"{IN_INTERVAL} %: TPOT", "throughput", "TTFT", "correct verdict"),
)


def traffic(record: Record) -> Rows:
    """The table of ``docs/accuracy.md``: the errors by study and by engine. The costs of a request are those
    of a fit without the runs of the same study and draft length.
    """
    yield ["served runs, their draft length left out", *SERVED_HEAD]
    yield from _served(record["traffic"]["length"])


def served_runs(record: Record) -> Rows:
    """The errors by study and by engine, for both kinds of folds (`HeldOutBy`)."""
    yield ["served runs", *SERVED_HEAD]
    for by, fold in record["traffic"].items():
        yield from _served(fold, f"; {by} left out")


def _served(fold: Record, words: str = "") -> Rows:
    lines = {**fold["studies"], **fold["engines"], "all": fold["all"]}
    for name, errors in lines.items():
        counts = figures(errors, "rows", "sources")
        means = figures(errors["mape"], *SERVED)
        growth = figures(errors, "growth")
        inside = figures(errors["inside"], *errors["inside"], digits=0)
        verdicts = f"{errors['right']} of {errors['asked']}" if errors["asked"] else "-"
        yield [name + words, *counts, *means, percent(errors["bias"]), *growth, *inside, verdicts]
