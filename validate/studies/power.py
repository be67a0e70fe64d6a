"""Fits constants of the power that a device draws. The data are iterations of one model at several power
limits and draft lengths (``results/published/power_limits.csv``).

The time of an iteration at a limit is predicted from its measured time at the highest limit. Errors of other
predicted times therefore do not affect the constants.
"""

from typing import Any

import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.costs.operation import work
from perfmodel.reading import read_csv
from perfmodel.specs import GPUSpec
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import Array, least_squares

QUESTION: dict[str, Any] = {
    "model": "qwen3.8-27b",
    "weights": "ud-q4_k_xl",
    "draft": "mtp",
    "batch": 1,
    "context": 250,
}
"""The fields of a question that are equal for all rows."""
COLUMNS = ("limit_w", "gamma", "tokens_per_s", "accepted_share", "joules_per_token")
FITTED = {
    "static_w": (200.0, 10.0, 390.0),
    "joules_per_byte": (2e-10, 1e-12, 1e-8),
    "joules_per_flop": (2e-11, 1e-13, 1e-9),
    "memory_share": (0.8, 0.1, 1.0),
}
"""Fitted constant -> the start of the search, its lower bound and its upper bound, in SI units."""


def power_table(hardware: str) -> Array:
    """The rows as an array ``[column, row]``.

    The first columns are the power limit in W, and gamma. The others are figures of an iteration: the
    measured seconds at the highest limit, the counted bytes, the counted FLOPs, and the measured seconds and
    joules at the limit of the row.
    """
    lines = read_csv(BUNDLED / "published" / "power_limits.csv", ("source", *COLUMNS))
    rows = np.array([[float(row[column] or 0) for column in COLUMNS] for _, row in lines])
    limit_w, gamma, rate, share, joules = rows.T
    tokens = 1.0 + gamma * share
    scenario = resolve(Query(**QUESTION, hardware=hardware, alpha=0.0))
    seconds = tokens / rate
    highest = limit_w == limit_w.max()
    full_s = np.array([seconds[highest & (gamma == length)].item() for length in gamma])
    batch = float(QUESTION["batch"])
    context = float(QUESTION["context"])
    target_work = np.array([work(scenario.target_ops(batch, context, length + 1.0)) for length in gamma])
    draft_work = np.array(work(scenario.draft_ops(batch, context)))
    moved, flops = (target_work + gamma[:, None] * draft_work).T
    return np.array((limit_w, gamma, full_s, moved, flops, seconds, tokens * joules))


def log_errors(gpu: GPUSpec, rows: Array) -> Array:
    """The log errors of the seconds and joules of an iteration, ``[2, row]``.

    - rows: see `power_table`.
    """
    limits, _, full_s, moved, flops, *measured = rows
    return np.log(np.array(gpu.limited(limits, full_s, moved, flops)) / measured)


def fitted(gpu: GPUSpec, rows: Array) -> GPUSpec:
    """The device with the constants whose squared log errors are smallest.

    - rows: see `power_table`.
    """

    def device(x: Array) -> GPUSpec:
        assert gpu.power_draw is not None
        constants = dict(zip(FITTED, np.exp(x).tolist(), strict=True))
        return gpu.replace(power_draw=gpu.power_draw.replace(**constants))

    def errors(x: Array) -> Array:
        return log_errors(device(x), rows).ravel()

    start, low, high = np.log(list(FITTED.values())).T
    return device(least_squares(errors, start, low, high).x)


def held_out(gpu: GPUSpec, rows: Array, column: int) -> Array:
    """The log errors of seconds and joules, ``[2, row]``, in the order of the values in a column. Each row is
    predicted with constants that were fitted without the rows with the same value in this column.

    - rows: see `power_table`.
    - column: the index of the column.
    """
    errors = []
    for value in np.unique(rows[column]):
        out = rows[column] == value
        errors.append(log_errors(fitted(gpu, rows[:, ~out]), rows[:, out]))
    return np.concatenate(errors, axis=1)
