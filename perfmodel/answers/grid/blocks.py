"""Computes the rows of a grid in blocks, so that memory use stays constant. A loop runs over the cases.
Within a case, arrays cover batch, context and gamma.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.answers.grid.grid import Grid
from perfmodel.answers.point.verdict import verdicts
from perfmodel.answers.question import Query, slowing
from perfmodel.operations import Array
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import (
    Scenario,
    Workload,
    capacity,
    interval_ends,
    is_beyond_measured_context,
    is_measured,
    log_error,
    log_middle,
    predict,
)

BLOCK_ROWS = 2**16
"""Largest number of rows of a block by default."""
LABELS = (
    "model",
    "hardware",
    "tp",
    "draft",
    "draft_tp",
    "draft_kv",
    "weights",
    "kv_dtype",
    "calibration",
    "alpha",
)
"""Columns with one value per case."""
WHOLE = ("batch", "context_tokens", "gamma", "gamma_optimal", "fits", "max_batch", "ar_max_batch")
"""Columns of whole numbers."""
COLUMNS = (
    "batch",
    "context_tokens",
    "gamma",
    "target_s",
    "draft_s",
    "verify_s",
    "overhead_s",
    "tokens_per_iteration",
    "speedup",
    "tpot_s",
    "ar_tpot_s",
    "throughput_tokens_per_s",
    "ar_throughput_tokens_per_s",
    "gamma_optimal",
    "speedup_at_gamma_optimal",
    "fits",
    "max_batch",
    "ar_max_batch",
)
"""Columns with one value per row, in order."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one case of a grid.

    - labels: the values that these rows share.
    - columns: one array per column, with a value for each row.
    """

    labels: dict[str, str | int | float | None]
    columns: dict[str, Array]
    scenario: Scenario

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.columns["batch"].size

    def typed(self) -> dict[str, Any]:
        """The columns by name. Columns with whole numbers have an integer type."""
        return {name: v.astype(np.int64) if name in WHOLE else v for name, v in self.columns.items()}


def blocks(grid: Grid, most_rows: int = BLOCK_ROWS) -> Iterator[Block]:
    """Yields the rows of the grid in blocks. Raises InputError for an impossible question.

    - most_rows: the largest number of rows in a block. A block always has all draft lengths of a pair of
      batch and context. If there are more draft lengths than `most_rows`, a block is larger.
    """
    for query, contexts, scenario in grid.resolved():
        labels = _labels(query, scenario)
        batches = np.asarray(grid.axis("batch"), float)
        lengths = np.asarray(contexts, float)
        gammas = grid.axis("gamma")
        pairs = len(batches) * len(contexts)
        step = max(most_rows // len(gammas), 1)
        for start in range(0, pairs, step):
            index = np.arange(start, min(start + step, pairs))
            batch = batches[index // len(contexts)]
            context = lengths[index % len(contexts)]
            columns = _columns(scenario, query, batch[:, None], context[:, None], gammas)
            yield Block(labels, columns, scenario)


def _columns(
    scenario: Scenario, query: Query, batch: Array, context: Array, gammas: tuple[int | None, ...]
) -> dict[str, Array]:
    """Each of `COLUMNS` over the pairs of batch and context times the draft lengths, in order.

    - batch, context: columns of one value per pair, [pairs, 1].
    - gammas: the draft lengths. None means the best length at each point.
    """
    gamma = np.array([[0 if g is None else g for g in gammas]])
    max_gamma = query.max_gamma
    if None in gammas:
        best = predict(scenario, Workload.of(batch, context), max_gamma).gamma_optimal
        gamma = np.where([[g is None for g in gammas]], best, gamma)
    prediction = predict(scenario, Workload.of(batch, context, gamma), max_gamma)
    room = capacity.memory_of(scenario, batch, context, gamma, query.memory_fraction)
    columns: dict[str, Any] = {"batch": batch, "context_tokens": context, "gamma": gamma}
    columns |= {name: getattr(room, name) for name in ("fits", "max_batch", "ar_max_batch")}
    columns |= {name: getattr(prediction, name) for name in COLUMNS if name not in columns}
    shape = (batch.shape[0], gamma.shape[1])
    return {name: np.broadcast_to(np.asarray(columns[name], np.float64), shape).ravel() for name in COLUMNS}


def _labels(query: Query, scenario: Scenario) -> dict[str, str | int | float | None]:
    """Each of `LABELS`, with names resolved.

    - alpha: None for an acceptance by position.
    """
    acceptance = scenario.acceptance
    alpha = 0.0 if acceptance is None else acceptance.alpha
    draft = scenario.draft
    return {
        "model": asked_name(query.model, scenario.target),
        "hardware": scenario.machine.gpu.label,
        "tp": query.tp,
        "draft": draft.name,
        "draft_tp": draft.tensor_parallel,
        "draft_kv": draft.kv.label(),
        "weights": scenario.precision.weights.name,
        "kv_dtype": scenario.precision.kv.name,
        "calibration": scenario.machine.calibration.name,
        "alpha": None if alpha is None else float(alpha),
    }


def is_time(column: str) -> bool:
    """Whether the values of a column are in seconds."""
    return column.endswith("_s") and not column.endswith("_per_s")


def verdicts_of(block: Block) -> dict[str, Any]:
    """The columns ``speedup_low`` and ``speedup_high`` (the ends of the 90 % interval) and ``verdict``.
    The ends are NaN if no error of the calibration is known.
    """
    columns = block.columns
    error = np.full(block.rows, np.nan)
    for gamma in np.unique(columns["gamma"]):
        rows = columns["gamma"] == gamma
        batch = columns["batch"][rows]
        context = columns["context_tokens"][rows]
        errors = log_error(block.scenario, batch, context, np.array([int(gamma)]))
        if not gamma:
            error[rows] = 0.0
        elif errors is not None:
            error[rows] = errors[..., 0]
    low, high = interval_ends(
        columns["speedup"], error, columns["tokens_per_iteration"], log_middle(block.scenario)
    )
    contexts, row_context = np.unique(columns["context_tokens"], return_inverse=True)
    slow = np.array([slowing(block.scenario, float(context)) is not None for context in contexts])
    beyond = np.array([is_beyond_measured_context(block.scenario, float(context)) for context in contexts])
    verdict = verdicts(
        columns["speedup"],
        low,
        high,
        columns["gamma"],
        columns["fits"],
        measured=is_measured(block.scenario),
        slow=slow[row_context],
        beyond=beyond[row_context],
    )
    return {"speedup_low": low, "speedup_high": high, "verdict": verdict}
