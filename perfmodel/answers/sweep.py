"""A grid of questions answered in blocks at flat memory: the cases outside, batch x context x gamma inside."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.speculation import capacity
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

BLOCK_ROWS = 2**16
MOST_CASES = 10_000
LABELS = ("model", "hardware", "tp", "draft", "draft_tp", "draft_kv", "weights", "kv_dtype", "calibration", "alpha")
WHOLE = ("batch", "context_tokens", "gamma", "gamma_optimal", "fits", "max_batch", "ar_max_batch")
COLUMNS = (
    *(
        "batch",
        "context_tokens",
        "gamma",
        "target_s",
        "draft_s",
        "verify_s",
        "overhead_s",
        "tokens_per_iteration",
        "speedup",
    ),
    *("tpot_s", "ar_tpot_s", "throughput_tokens_per_s", "ar_throughput_tokens_per_s", "gamma_optimal"),
    *("speedup_at_gamma_optimal", "fits", "max_batch", "ar_max_batch"),
)
AXES = ("model", "hardware", "tp", "draft_kv", "alpha", "batch", "context", "gamma")
Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one case: what is the same in all of them, and one array per column."""

    labels: dict[str, str | int | float | None]
    columns: dict[str, Column]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.columns["batch"].size


@dataclass(frozen=True)
class Grid:
    """Every combination of the axes; `template` holds all that does not vary. A gamma of None is the best one."""

    template: Query
    model: tuple[str, ...]
    hardware: tuple[str, ...]
    tp: tuple[int, ...]
    draft_kv: tuple[str, ...]
    alpha: tuple[float | None, ...]
    batch: tuple[float, ...]
    context: tuple[float, ...]
    gamma: tuple[int | None, ...]

    @property
    def rows(self) -> int:
        """Number of rows of the whole grid."""
        return math.prod(len(getattr(self, name)) for name in AXES)

    def queries(self) -> Iterator[Query]:
        """One question per point, gamma varying fastest, then context, then batch."""
        for query in self._heads():
            for batch, context, gamma in itertools.product(self.batch, self.context, self.gamma):
                yield replace(query, batch=batch, context=context, gamma=gamma)

    def cases(self) -> Iterator[tuple[Query, tuple[float, ...]]]:
        """Questions that differ in more than batch, context and gamma, each with its contexts.

        An acceptance that is looked up belongs to one context, so that each context is then a case of its own.
        """
        looked_up = (
            self.alpha == (None,) and self.template.tokens_per_iteration is None and any(g != 0 for g in self.gamma)
        )
        groups = [(context,) for context in self.context] if looked_up else [self.context]
        for query in self._heads():
            for contexts in groups:
                yield replace(query, batch=self.batch[0], context=contexts[0], gamma=self._gamma_of_lookup()), contexts

    def _heads(self) -> Iterator[Query]:
        axes = itertools.product(self.model, self.hardware, self.tp, self.draft_kv, self.alpha)
        for model, hardware, tp, kv, alpha in axes:
            yield replace(self.template, model=model, hardware=hardware, tp=tp, draft_kv=kv, alpha=alpha)

    def _gamma_of_lookup(self) -> int | None:
        """A gamma that makes `resolve` look the acceptance up where any row needs it."""
        return max(self.gamma, key=lambda gamma: float("inf") if gamma is None else gamma)

    def resolved(self) -> Iterator[tuple[Query, tuple[float, ...], Scenario]]:
        """The cases with what they name, read. Raises InputError where there are too many or one is impossible."""
        Workload.of(self.batch, 1)
        Workload.of(1, self.context)
        Workload.of(1, 1, [0 if gamma is None else gamma for gamma in self.gamma])
        for number, (query, contexts) in enumerate(self.cases()):
            if number == MOST_CASES:
                raise InputError(
                    f"sweep: at most {MOST_CASES} combinations beside batch, context and gamma "
                    "(without --alpha every context is one, its acceptance being looked up)"
                )
            yield query, contexts, resolve(query)

    def fingerprint(self) -> str:
        """Changes with the grid, the columns and the contents of every file that is named. Raises as `resolved`."""
        import hashlib  # takes a while to load, and a what-if needs none

        axes = {name: getattr(self, name) for name in AXES}
        made = hashlib.sha256(repr((self.template, axes, LABELS, COLUMNS, BLOCK_ROWS)).encode())
        for _, _, scenario in self.resolved():
            made.update(repr(scenario).encode())
        return made.hexdigest()


def blocks(grid: Grid, skip: int = 0) -> Iterator[Block]:
    """The grid's rows in blocks of at most about `BLOCK_ROWS`, without the first `skip` blocks. Raises InputError."""
    number = 0
    for query, contexts, scenario in grid.resolved():
        labels = _labels(query, scenario)
        pairs = len(grid.batch) * len(contexts)
        step = max(BLOCK_ROWS // len(grid.gamma), 1)
        batches, lengths = np.asarray(grid.batch, float), np.asarray(contexts, float)
        for start in range(0, pairs, step):
            number += 1
            if number > skip:
                index = np.arange(start, min(start + step, pairs))
                batch, context = batches[index // len(contexts)], lengths[index % len(contexts)]
                yield Block(labels, _columns(scenario, query, batch[:, None], context[:, None], grid.gamma))


def _columns(
    scenario: Scenario, query: Query, batch: Column, context: Column, gammas: tuple[int | None, ...]
) -> dict[str, Column]:
    gamma = np.array([[0 if g is None else g for g in gammas]])
    if None in gammas:
        best = predict(scenario, Workload.of(batch, context), query.max_gamma).gamma_optimal
        gamma = np.where([[g is None for g in gammas]], best, gamma)
    p = predict(scenario, Workload.of(batch, context, gamma), query.max_gamma)
    room = capacity.memory_of(scenario, batch, context, gamma, query.memory_fraction)
    found: dict[str, Any] = {"batch": batch, "context_tokens": context, "gamma": gamma}
    found |= {name: getattr(room, name) for name in ("fits", "max_batch", "ar_max_batch")}
    found |= {name: getattr(p, name) for name in COLUMNS if name not in found}
    shape = (batch.shape[0], gamma.shape[1])
    return {name: np.broadcast_to(np.asarray(found[name], np.float64), shape).reshape(-1) for name in COLUMNS}


def _labels(query: Query, scenario: Scenario) -> dict[str, str | int | float | None]:
    alpha, draft = scenario.acceptance.alpha, scenario.draft
    return {
        "model": scenario.target.name,
        "hardware": scenario.machine.gpu.name,
        "tp": query.tp,
        "draft": draft.name,
        "draft_tp": draft.tensor_parallel,
        "draft_kv": draft.kv.label(),
        "weights": scenario.precision.weights.name,
        "kv_dtype": scenario.precision.kv.name,
        "calibration": scenario.machine.calibration.name,
        "alpha": None if alpha is None else float(alpha),
    }


class Sink(Protocol):
    """Where blocks go. `open` says how many blocks an interrupted run has left; `close` makes the file whole."""

    def open(self, fingerprint: str, *, resume: bool, overwrite: bool) -> int: ...
    def write(self, block: Block) -> None: ...
    def close(self) -> None: ...


def run(
    grid: Grid,
    sink: Sink,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """Answer the grid into a sink and return its number of rows; `progress` is told of rows as they are written.

    What was written before an interruption stays, and `resume` goes on from there. Raises InputError for a question
    that cannot be answered, and where the interrupted file belongs to another one.
    """
    done = sink.open(grid.fingerprint(), resume=resume, overwrite=overwrite)
    for block in blocks(grid, done):
        sink.write(block)
        progress(block.rows)
    sink.close()
    return grid.rows
