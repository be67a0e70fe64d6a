"""Answers a grid of questions in blocks, with constant memory. The outer loop runs over cases, the inner
arrays over batch x context x gamma.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from perfmodel.answers.answer import SCHEMA_VERSION, Answer, escaped, plain
from perfmodel.answers.declaration import argument, asks, listed, question
from perfmodel.answers.point.verdict import verdicts
from perfmodel.answers.question import Options, Query, arguments as arg, doubts, resolve, slowing
from perfmodel.answers.readers import Lengths, MaybeReals, MaybeWords, Wholes, Words
from perfmodel.errors import InputError, library, refuse, unknown_name
from perfmodel.operations import Array
from perfmodel.parse import parse_text
from perfmodel.speculation import (
    Scenario,
    Workload,
    capacity,
    interval_ends,
    is_measured,
    log_error,
    log_middle,
    predict,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

MAX_ROWS = 10_000_000
"""Largest number of rows of a sweep that is held in memory."""
BLOCK_ROWS = 2**16
MAX_CASES = 10_000
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
WHOLE = ("batch", "context_tokens", "gamma", "gamma_optimal", "fits", "max_batch", "ar_max_batch")
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
HEADS = ("model", "hardware", "tp", "draft_kv", "alpha")
AXES = (*HEADS, "batch", "context", "gamma")
Column = Array


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one case: the values that they share, and one array per column."""

    labels: dict[str, str | int | float | None]
    columns: dict[str, Column]
    scenario: Scenario

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.columns["batch"].size

    def typed(self) -> dict[str, Any]:
        """The columns; whole numbers have an integer type."""
        return {name: v.astype(np.int64) if name in WHOLE else v for name, v in self.columns.items()}


@question
class Grid(Options):
    """Every combination of the lists, with all other arguments fixed. A gamma of None is the best one at each
    point.
    """

    model: Annotated[Words, listed(arg.Model)]  # type: ignore[assignment]  # several
    hardware: Annotated[Words, listed(arg.Hardware)]  # type: ignore[assignment]
    batch: Annotated[Wholes, listed(arg.Batch)]
    context: Annotated[Wholes, listed(arg.Context)]
    gamma: Annotated[Lengths, listed(arg.Gamma)] = argument(default="auto")
    tp: Annotated[Wholes, listed(arg.TP)] = argument(default=1)
    draft_kv: Annotated[MaybeWords, listed(arg.DraftKV)] = argument(default=None)
    alpha: Annotated[MaybeReals, listed(arg.Alpha)] = argument(default=None)

    def check(self) -> None:
        super().check()
        if self.tokens_per_iteration is not None and len(self.axis("gamma")) > 1:
            raise InputError(
                "--tokens-per-iteration: needs one --gamma N, the draft length at which it was measured"
            )

    def axis(self, name: str) -> tuple[Any, ...]:
        """The values of one of `AXES`."""
        given = getattr(self, name)
        return given if isinstance(given, tuple) else (given,)

    @property
    def rows(self) -> int:
        """Number of rows of the whole grid."""
        return math.prod(len(self.axis(name)) for name in AXES)

    @property
    def looks_up(self) -> bool:
        """Whether the acceptance is looked up. A published acceptance belongs to one context."""
        asked = self.axis("alpha") == (None,) and self.tokens_per_iteration is None
        return asked and any(gamma != 0 for gamma in self.axis("gamma"))

    def resolved(self) -> Iterator[tuple[Query, tuple[float, ...], Scenario]]:
        """The questions that differ in more than batch, context and gamma, each with its contexts and
        resolved names.

        A looked-up acceptance belongs to one context, so each context then becomes its own case. Raises
        InputError for too many cases, or for an impossible one.
        """
        every = self.axis("context")
        gammas = self.axis("gamma")
        Workload.of(self.axis("batch"), 1)
        Workload.of(1, every)
        Workload.of(1, 1, [0 if gamma is None else gamma for gamma in gammas])
        # a gamma that makes `resolve` look the acceptance up where any row needs it
        longest = max(gammas, key=lambda g: math.inf if g is None else g)
        point = {"batch": self.axis("batch")[0], "gamma": longest}
        together = [(context,) for context in every] if self.looks_up else [every]
        for number, (*head, contexts) in enumerate(itertools.product(*map(self.axis, HEADS), together)):
            if number == MAX_CASES:
                raise InputError(
                    f"sweep: at most {MAX_CASES} combinations of all lists but batch, context and "
                    "gamma (without --alpha each context counts, because its acceptance is looked up)"
                )
            query = self.query(**point, context=contexts[0], **dict(zip(HEADS, head, strict=True)))
            yield query, contexts, resolve(query)

    def doubts(self) -> tuple[str, ...]:
        """Warnings about a batch of one sequence at the longest context of each case, each once."""
        cases = ((query, s, max(contexts), query.gamma) for query, contexts, s in self.resolved())
        doubts_of_cases = (doubts(query, s, 1.0, c, 1 if g is None else g) for query, s, c, g in cases)
        return tuple(dict.fromkeys(note for notes in doubts_of_cases for note in notes))


def blocks(grid: Grid) -> Iterator[Block]:
    """The grid's rows in blocks of at most about `BLOCK_ROWS`. Raises InputError."""
    for query, contexts, scenario in grid.resolved():
        labels = _labels(query, scenario)
        batches = np.asarray(grid.axis("batch"), float)
        lengths = np.asarray(contexts, float)
        gammas = grid.axis("gamma")
        pairs = len(batches) * len(contexts)
        step = max(BLOCK_ROWS // len(gammas), 1)
        for start in range(0, pairs, step):
            index = np.arange(start, min(start + step, pairs))
            batch = batches[index // len(contexts)]
            context = lengths[index % len(contexts)]
            columns = _columns(scenario, query, batch[:, None], context[:, None], gammas)
            yield Block(labels, columns, scenario)


def _columns(
    scenario: Scenario, query: Query, batch: Column, context: Column, gammas: tuple[int | None, ...]
) -> dict[str, Column]:
    gamma = np.array([[0 if g is None else g for g in gammas]])
    max_gamma = query.max_gamma
    if None in gammas:
        best = predict(scenario, Workload.of(batch, context), max_gamma).gamma_optimal
        gamma = np.where([[g is None for g in gammas]], best, gamma)
    p = predict(scenario, Workload.of(batch, context, gamma), max_gamma)
    room = capacity.memory_of(scenario, batch, context, gamma, query.memory_fraction)
    columns: dict[str, Any] = {"batch": batch, "context_tokens": context, "gamma": gamma}
    columns |= {name: getattr(room, name) for name in ("fits", "max_batch", "ar_max_batch")}
    columns |= {name: getattr(p, name) for name in COLUMNS if name not in columns}
    shape = (batch.shape[0], gamma.shape[1])
    return {name: np.broadcast_to(np.asarray(columns[name], np.float64), shape).ravel() for name in COLUMNS}


def _labels(query: Query, scenario: Scenario) -> dict[str, str | int | float | None]:
    known = scenario.acceptance
    alpha = 0.0 if known is None else known.alpha
    draft = scenario.draft
    return {
        "model": scenario.target.name,
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
    """Whether a column holds seconds."""
    return column.endswith("_s") and not column.endswith("_per_s")


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Answer):
    """The answers of a grid in order: a row per point, `LABELS` and `COLUMNS` with units in their names.

    Two sweeps are equal if they are the same object.
    """

    grid: Grid
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        return sum(block.rows for block in self.blocks)

    def to_frame(self) -> "DataFrame":
        """The rows as a pandas DataFrame, with the speedup's interval and the verdict of each point.

        Raises InputError if pandas is not installed.
        """
        frames = []
        for block in self.blocks:
            alpha = block.labels["alpha"]
            labels: dict[str, Any] = block.labels | {"alpha": np.nan if alpha is None else alpha}
            columns = block.typed() | {"fits": block.columns["fits"].astype(np.bool_)} | _verdicts(block)
            frames.append(library("pandas").DataFrame(labels | columns, index=range(block.rows)))
        return library("pandas").concat(frames, ignore_index=True)

    def to_xarray(self) -> "Dataset":
        """The figures as an xarray Dataset over `AXES`, including axes with one value.

        A draft length that the sweep chooses is ``auto`` on its axis, an acceptance that is looked up
        ``published``, and any other value that was not given an empty text. Raises InputError if xarray is
        not installed.
        """
        dataset = library("xarray", "to_xarray", "xarray").Dataset
        axes = {name: self.grid.axis(name) for name in AXES}
        sizes = {name: len(values) for name, values in axes.items()}
        figures = {
            name: (AXES, self._over_axes(name, sizes))
            for name in COLUMNS
            if name not in ("batch", "context_tokens", "gamma")
        }
        unset = {"alpha": "published", "gamma": "auto"}
        labels = {
            name: [unset.get(name, "") if value is None else value for value in values]
            for name, values in axes.items()
        }
        return dataset(figures, labels)

    def _over_axes(self, figure: str, sizes: dict[str, int]) -> Array:
        """One column with an axis for each of `AXES`."""
        column: Array = np.concatenate([block.typed()[figure] for block in self.blocks])
        if not self.grid.looks_up:
            return column.reshape([*sizes.values()])
        # each context is a case of its own, so that its rows come before those of the next batch
        swapped = [*(sizes[name] for name in HEADS), sizes["context"], sizes["batch"], sizes["gamma"]]
        return column.reshape(swapped).swapaxes(AXES.index("batch"), AXES.index("context"))

    def best(self, figure: str = "speedup") -> dict[str, Any]:
        """The row with the best figure (one of `COLUMNS`) among those that fit in memory: the largest value,
        or the smallest of a time (``_s``).

        Raises InputError for an unknown figure, or if no row fits.
        """
        if parse_text(figure, "figure") not in COLUMNS:
            raise unknown_name("figure", "figure", figure, COLUMNS)
        if not (rows := [row for row in self.as_dict()["rows"] if row["fits"]]):
            raise InputError("best: nothing of this sweep fits in memory")
        return dict((min if is_time(figure) else max)(rows, key=lambda row: row[figure]))

    def as_dict(self) -> dict[str, Any]:
        rows = []
        for block in self.blocks:
            figures = zip(*(column.tolist() for column in block.typed().values()), strict=True)
            rows += [block.labels | dict(zip(COLUMNS, row, strict=True)) for row in figures]
        return {"schema_version": SCHEMA_VERSION, "rows": plain(rows)}

    def _repr_html_(self) -> str:
        return f"<p><b>{escaped(self.headline())}</b></p><pre>{escaped(str(self))}</pre>"

    def headline(self) -> str:
        speedup = np.concatenate([block.columns["speedup"] for block in self.blocks])
        span = f"{speedup.min():.2f}x to {speedup.max():.2f}x"
        return f"{len(self)} rows, speedup {span}"


@asks(Grid)
def sweep(grid: Grid) -> Sweep:
    """Answer every combination of the lists; `Sweep.to_frame` makes a table of it.

    model, hardware, tp, draft_kv, alpha, batch, context and gamma take lists, or text with commas and ranges:
    ``1..16``, ``1000..64000+1000``, ``1..256x2``. Raises InputError.
    """
    if grid.rows > MAX_ROWS:
        raise refuse(
            "sweep",
            "rows",
            f"at most {MAX_ROWS} in memory; `perfmodel sweep` writes more to a file",
            grid.rows,
        )
    return Sweep(grid, tuple(blocks(grid)))


def _verdicts(block: Block) -> dict[str, Any]:
    """Both ends of the speedup's interval, and the verdict. The ends are NaN where the calibration states no
    error.
    """
    c = block.columns
    error = np.full(block.rows, np.nan)
    for gamma in np.unique(c["gamma"]):
        rows = c["gamma"] == gamma
        batch = c["batch"][rows]
        context = c["context_tokens"][rows]
        errors = log_error(block.scenario, batch, context, np.array([int(gamma)]))
        if not gamma:
            error[rows] = 0.0
        elif errors is not None:
            error[rows] = errors[..., 0]
    low, high = interval_ends(c["speedup"], error, c["tokens_per_iteration"], log_middle(block.scenario))
    contexts, at = np.unique(c["context_tokens"], return_inverse=True)
    slow = np.array([slowing(block.scenario, float(context)) is not None for context in contexts])[at]
    measured = is_measured(block.scenario)
    word = verdicts(c["speedup"], low, high, c["gamma"], c["fits"], measured, slow)
    return {"speedup_low": low, "speedup_high": high, "verdict": word}
