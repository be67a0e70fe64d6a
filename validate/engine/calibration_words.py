"""The printed remarks about a calibration and its rows."""

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.engine.calibrate import EngineCalibration
from perfmodel.validate.engine.calibration_errors import speedup_logs
from perfmodel.validate.engine.fit import log_rms
from perfmodel.validate.engine.timing import MAX_PREFILL_SHARE, Timing

OUT_OF_LINE = 0.3
"""Held-out log error above which a row is reported as one that does not fit the others."""
CONTRADICTING = 0.2
"""Held-out log error (rms) above which the rows should be measured again. `USUAL` has typical errors."""


def lines(calibrated: EngineCalibration) -> list[str]:
    """The printed lines: a table of rows (measured, predicted before, predicted when held out), the rows that
    were set aside, and the fitted and pinned constants.
    """
    return [*_table(calibrated), *_remarks(calibrated), *_errors_lines(calibrated)]


def _table(calibrated: EngineCalibration) -> list[str]:
    """The measured time, the previous prediction and the held-out prediction of each row, and then the rows
    that are set aside.
    """
    before = None if calibrated.previous is None else calibrated.rows.predict(calibrated.previous)
    before_head = "" if before is None else f"{'predicted':>11}{'error':>8}"
    table = [f"{'step':<28}{'measured':>11}{before_head}{'held out':>11}{'error':>8}"]
    for i, t in enumerate(calibrated.rows.timings):
        seconds = calibrated.fitted.held_out[i]
        line = f"{t.name:<28}{t.seconds * 1e3:>9.2f}ms"
        if before is not None:
            line += _against(before[i], t)
        line += _against(seconds, t)
        if abs(np.log(seconds / t.seconds)) > OUT_OF_LINE:
            line += "  out of line: counts less"
        table.append(line)
    for t in calibrated.aside:
        prefill = f"{t.prefill_share:.0%} of its time is other requests' prefill"
        table.append(f"set aside: {t.where} ({t.name}): {prefill}")
    if calibrated.aside:
        advice = "--save-detailed, or fewer prompts than places, avoids it"
        table.append(f"  (above {MAX_PREFILL_SHARE:.0%}; {advice})")
    return table


def _remarks(calibrated: EngineCalibration) -> list[str]:
    """Lines about the fitted constants, the constants that the rows do not determine, and the base
    calibration.
    """
    values = [f"{name} {getattr(calibrated.calibration, name).value:.4g}" for name in calibrated.fitted.free]
    lines = [f"fitted: {', '.join(values) or 'nothing: the rows do not say more than the base'}"]
    if all(t.gamma for t in calibrated.rows.timings):
        lines.append(
            "no baseline step among these rows: only a weak prior separates it from the cost of drafting"
        )
    if calibrated.fitted.pinned:
        lines.append(
            f"not determined by these rows, left as in the base: {', '.join(calibrated.fitted.pinned)}"
        )
    base = f"base: {calibrated.base}"
    others = [f"{name} {off:.1%}" for name, off in calibrated.tried.items() if name != calibrated.base]
    if others:
        base += f", with the smallest held-out error (others: {', '.join(others)})"
    return [*lines, base]


def _errors_lines(calibrated: EngineCalibration) -> list[str]:
    """Lines about the errors of the previous calibration, and those of the new calibration on held-out
    rows.
    """
    lines = []
    if calibrated.previous is not None:
        errors = _errors_in_words(calibrated, calibrated.rows.predict(calibrated.previous))
        lines.append(f"error of {calibrated.previous.name}, which answered so far (rms): {errors}")
    held_out = calibrated.fitted.held_out
    lines.append(f"held-out error (rms): {_errors_in_words(calibrated, held_out)}")
    if log_rms(held_out, calibrated.rows.measured) > CONTRADICTING:
        lines.append("the rows contradict each other: measure again on a quiet machine")
    return lines


def _against(seconds: float, t: Timing) -> str:
    """A predicted time, and its error."""
    return f"{seconds * 1e3:>9.2f}ms{seconds / t.seconds - 1:>+8.1%}"


def _errors_in_words(calibrated: EngineCalibration, seconds: Array) -> str:
    """Errors of predicted steps, and of speedups if there is a baseline for them."""
    words = f"steps {log_rms(seconds, calibrated.rows.measured):.1%} over {len(calibrated.rows.timings)}"
    of_speedups = speedup_logs(calibrated.rows, seconds)
    if of_speedups:
        rms = np.sqrt(np.mean(np.square(of_speedups)))
        words += f"; speedup {rms:.1%} over {len(of_speedups)}"
    return words
