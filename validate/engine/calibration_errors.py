"""The errors that the file of a calibration states for steps and speedups."""

from collections.abc import Sequence

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import (
    MAX_LOG_RMS,
    Scatter,
)
from perfmodel.validate.engine.fit import EngineFit, EngineRows, small_sample
from perfmodel.validate.engine.speedup_pairs import speedup_pairs
from perfmodel.validate.solving import significant

USUAL = {"target_s": 0.06, "speedup": 0.072}
"""Typical log errors (rms) of calibrated servers at draft lengths and batches without rows (docs/log.md)."""
WEIGHT = 4
"""The number of groups of rows as which the errors in `USUAL` count (docs/log.md)."""
ERROR_DIGITS = 3
"""Significant digits of errors in words."""


def stated_errors(fitted: EngineFit, rows: EngineRows) -> dict[str, Scatter]:
    """The expected errors of a step or iteration, and of a speedup, at a draft length or batch that no row
    has.

    All rows of a draft length or batch between the smallest and the largest are left out together, because
    the errors of a server's rows are correlated. Each such group counts once. The errors of rows that were
    left out one by one, which scatter widely on a busy machine, also count as one group. The errors of other
    servers (`USUAL`) count as `WEIGHT` groups. If there are few groups, the error is widened (Student's t).
    """
    every_row = np.ones(len(rows.timings), bool)
    groups = (*fitted.groups, (every_row, fitted.held_out)) if fitted.groups else ()
    pairs = speedup_pairs(rows.timings)
    steps: list[Array | list[float]] = []
    ratios: list[Array | list[float]] = []
    for left_out, seconds in groups:
        off = np.log(seconds / rows.measured)
        steps.append(off[left_out])
        of_group = [off[i] - off[j] for i, j in pairs if left_out[i]]
        if of_group:
            ratios.append(of_group)
    source = f"{WEIGHT} groups of other servers"
    if fitted.groups:
        of_server = f"{len(fitted.groups)} draft lengths and batches left out whole, rows left out one by one"
        source = f"{of_server}, and {source}"
    errors = {}
    for name, of_server_errors in (("target_s", steps), ("speedup", ratios)):
        rms = _rms_with_usual(of_server_errors, USUAL[name])
        errors[name] = Scatter(log_rms=rms, rows=len(rows.timings), source=source)
    return errors


def _rms_with_usual(of_server: Sequence[Array | list[float]], usual: float) -> float:
    """The root mean square of log errors, widened for few groups. Each group counts once, and the errors of
    other servers count as `WEIGHT` groups.

    - of_server: the errors of each group.
    - usual: the typical error of other servers.
    """
    squares = [float(np.mean(np.square(group))) for group in of_server]
    count = WEIGHT + len(squares)
    mean_square = (WEIGHT * usual**2 + sum(squares)) / count
    rms = small_sample(mean_square**0.5, count + 1)
    return significant(min(rms, MAX_LOG_RMS), ERROR_DIGITS)


def speedup_logs(rows: EngineRows, seconds: np.ndarray) -> list[float]:
    """The log of predicted over measured speedup for every speculative row that has a baseline row at its
    batch and context.
    """
    off = np.log(seconds / rows.measured)
    return [float(off[j] - off[i]) for i, j in speedup_pairs(rows.timings)]
