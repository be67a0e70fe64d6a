"""Tables of serving engines: the errors on the steps and ratios to which the constants are fitted."""

from perfmodel.validate.studies.engine_folds import RATIO_FOLDS, STEP_FOLDS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.tables.cells import (
    INTERVAL_HEAD,
    Record,
    Rows,
    coverage_cells,
    figures,
    right_of_all,
    wrong_of_sure,
)


def engines(record: Record) -> Rows:
    """The errors of step times by engine and by kind of fold."""
    names = ["groups", "rows", "mean error %", "of groups %", "bias %", "worst %"]
    yield ["T_T, held out", *names, *INTERVAL_HEAD]
    for relation, fold in STEP_FOLDS.items():
        by_engine = record["engines"]["steps"][relation]
        for engine, title in ENGINES.items():
            if errors := by_engine.get(engine):
                cells = figures(errors, "groups", "rows", "mape", "groups_mape", "bias", "worst")
                yield [f"{title}, by {fold.words}", *cells, *coverage_cells(errors)]


def engine_cells(record: Record) -> Rows:
    """The errors of step times by engine, device and model. Each tensor-parallel degree is predicted with a
    fit without its rows.
    """
    yield ["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"]
    for name, errors in sorted(record["engines"]["cells"].items()):
        engine, model, device = name.split(" ")
        cells = figures(errors, "groups", "rows", "groups_mape", "bias", "worst")
        yield [f"{ENGINES[engine]}, {device}, {model}", *cells]


def engine_ratios(record: Record) -> Rows:
    """The errors of the ratio of an iteration to a baseline step, and the number of correct verdicts on the
    speedup.
    """
    yield [
        *("iteration/step, held out", "rows", "mean error %", "bias %", "worst %"),
        *(*INTERVAL_HEAD, "correct verdict", "certain but wrong"),
    ]
    engines = record["engines"]
    for by, fold in RATIO_FOLDS.items():
        for engine, title in ENGINES.items():
            errors = engines["ratios"][by].get(engine)
            if errors is None:
                continue
            side = engines["sides"][by][engine]
            cells = figures(errors, "rows", "mape", "bias", "worst")
            verdicts = right_of_all(side), wrong_of_sure(side)
            yield [f"{title}, by {fold.words}", *cells, *coverage_cells(errors), *verdicts]
