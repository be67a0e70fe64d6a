"""Points of a live engine that no fit sees, and the errors on them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from perfmodel.answers.question import Query
from perfmodel.validate.engine.calibrate import EngineCalibration
from perfmodel.validate.engine.calibration_errors import speedup_logs
from perfmodel.validate.engine.fit import rows_of
from perfmodel.validate.engine.timing import Timing

BASE = "ideal"
"""An engine's kernels are its own: nothing is taken from those of our decoder but the device's peaks."""
HELD_OUT_GAMMA = 3
HELD_OUT_BATCH = 2
QUIET_LOAD = 0.5
"""ServerLoad average of the minute before, above which the machine is called busy and the errors are only
shown.
"""


class Judged(NamedTuple):
    """Errors on points held out, by figure, and a line of each point: measured, predicted, error."""

    errors: dict[str, float]
    lines: list[str]


def is_held_out(t: Timing) -> bool:
    """Whether no fit sees a point: its draft length or its batch is not among the fitted ones."""
    return t.gamma == HELD_OUT_GAMMA or t.batch == HELD_OUT_BATCH


def judge(calibrated: EngineCalibration, query: Query, held_out: list[Timing], plain: list[Timing]) -> Judged:
    """Errors on rows that no fit saw: TPOT of all, speedup beside the measured plain step of the same
    place.
    """
    base = calibrated.calibration
    predicted_s = rows_of(held_out, query, base).predict(base)
    errors = []
    lines = []
    for t, seconds in zip(held_out, predicted_s, strict=True):
        error = float(seconds / t.seconds - 1)
        errors.append(abs(error))
        predicted_ms = seconds / t.tokens_per_iteration * 1e3
        lines.append(f"{t.name:<28}{t.tpot_s * 1e3:>9.2f}ms{predicted_ms:>9.2f}ms{error:>+8.1%}")
    both = rows_of([*held_out, *plain], query, base)
    speedup_errors = [abs(log) for log in speedup_logs(both, both.predict(base))]
    by_figure = {
        "tpot": sum(errors) / len(errors),
        "tpot_worst": max(errors),
        "speedup": sum(speedup_errors) / len(speedup_errors),
        "speedup_worst": max(speedup_errors),
    }
    return Judged(by_figure, lines)


def missed(errors: Mapping[str, Mapping[str, float]], wanted: Mapping[str, float]) -> Iterable[str]:
    """A line for each error above the largest wanted one of its figure. errors: run -> figure -> error."""
    for run, of_run in errors.items():
        for figure, most in wanted.items():
            if of_run.get(figure, 0.0) > most:
                yield f"{run}: {figure} {of_run[figure]:.1%}"
