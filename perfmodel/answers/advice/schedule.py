"""Chooses the draft length for each batch size and context, and writes the table in the format of a serving
engine.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers import readers
from perfmodel.answers.advice.checkpoint_cache import with_cache_of_checkpoint
from perfmodel.answers.advice.draft_lengths import (
    DEFAULT_HYSTERESIS,
    MAX_BATCH,
    MAX_BATCHES,
    LengthTable,
    Range,
    length_tables,
)
from perfmodel.answers.advice.engine_lines import Export, export, five_item_rows, no_line
from perfmodel.answers.advice.served_target import served_with
from perfmodel.answers.advice.servers import ServedTarget
from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import SHARE, argument, asks, question
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.warnings import warnings
from perfmodel.answers.question import (
    Options,
    Query,
    acceptance_by_context,
    arguments as arg,
    defect_warning,
    resolve,
    runs_in,
    slowing,
)
from perfmodel.answers.question.racks import without_stages
from perfmodel.answers.text import devices, model_and_shape, ratio_text
from perfmodel.errors import InputError
from perfmodel.specs import engine_of, serving_engines
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import Scenario, Workload, memory_of, predict, speedup_interval
from perfmodel.speculation.confidence import ByConfidence, by_confidence

LEAST_GAIN = 0.02
"""A table is only recommended if its gain over the best single length is larger than this share."""


@question
class ScheduleQuery(Options):
    """A question about the draft length at every batch size.

    - context: one context, or the upper ends of several context ranges.
    """

    context: readers.Wholes = argument(
        "One context, or the upper ends of several context ranges.",
        arg.COUNTS,
        "--context-length -c",
        limits=(1, 2**40),
    )
    max_batch: readers.MaybeWhole = argument(
        "Largest batch size in the table.",
        "N",
        shown=f"the largest that fits, at most {MAX_BATCHES}; 4 for llama.cpp",
        limits=(1, MAX_BATCH),
        default=None,
    )
    gamma: readers.Length = argument(
        "Draft length at which --tokens-per-iteration was measured; needed only with that flag.",
        "N",
        "-g --num-speculative-tokens --speculative-num-steps",
        readers.gamma,
        shown="auto",
        default=None,
        needs=("tokens_per_iteration",),
    )
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    rate: arg.ChainRate = argument(default=None)
    hysteresis: readers.Real = argument(
        "Minimum share of decoding time that each additional batch-size range must save.",
        "SHARE",
        limits=SHARE,
        default=DEFAULT_HYSTERESIS,
    )
    dynamic_price: readers.MaybeReal = argument(
        "Share of time that the engine loses if the draft length changes with the batch size.",
        "SHARE",
        limits=(0, 1),
        shown="the engine's own value, if known",
        default=None,
        group="Engine",
    )
    draft_path: arg.DraftPath = argument(default=None)
    model_path: arg.ModelPath = argument(default=None)

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the cache format of the checkpoint, if the question states none."""
        return super().settled(with_cache_of_checkpoint(values))

    def check(self) -> None:
        super().check()
        without_stages(self, "schedule")
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")


@dataclass(frozen=True, kw_only=True)
class ScheduleTable(LengthTable):
    """A table of draft lengths, and the command lines of the engines.

    - instead: the reason to use one draft length at all batch sizes, if a table would gain less than it
      costs; otherwise None.
    - sglang_costs: for a DSpark draft, the contents of the file for ``--speculative-dspark-sps-table-path``.
    - by_confidence: the speedup if only tokens with a high confidence are verified; None if the acceptance
      file has no rates by confidence.
    - gain: expected speedup of the table divided by that of the best single draft length. The gain is at
      least 1.
    """

    export: Export
    instead: str | None
    sglang_costs: dict[str, Any] | None = None
    by_confidence: ByConfidence | None = None
    gain: float


@dataclass(frozen=True, repr=False)
class Schedule(Answer):
    """The answer of `schedule`, with one table for each context range.

    - shape: the bundled model whose shape the model has, or the name in the model's file.
    - num_speculative_tokens_per_batch_and_context: the rows of `five_item_rows`.
    - does_not_fit: None if a sequence of the longest context fits in memory. Otherwise, this field has the
      reason, and the answer has no command line.
    """

    model: str
    shape: str
    hardware: str
    tp: int
    draft: str
    draft_kv: str
    acceptance_source: str
    tables: tuple[ScheduleTable, ...]
    num_speculative_tokens_per_batch_and_context: tuple[tuple[int, ...], ...] | None
    runs_in: str | None
    does_not_fit: str | None
    calibration: Calibrated
    warnings: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return self.does_not_fit is not None

    def headline(self) -> str:
        spans = ", ".join(f"{r.low}-{r.high}: {r.tokens}" for r in self.tables[0].ranges)
        model = model_and_shape(self.model, self.shape)
        where = f"{model} on {devices(self.hardware, self.tp)}; draft: {self.draft}"
        return f"{ratio_text(self.tables[0].speedup)} expected; draft tokens by batch {spans}; {where}"


@asks(ScheduleQuery)
def schedule(question: ScheduleQuery) -> Schedule:
    """Find the best draft length for each batch size (and context), and write the table for vLLM and SGLang.

    The table is never predicted to be slower than the best constant draft length. Length 0 turns speculation
    off. Raises InputError for wrong input.
    """
    contexts = tuple(int(context) for context in question.context)
    query = _query(question, contexts)
    scenario = resolve(query)
    room = _room(scenario, query, contexts)
    why = None if room[-1].any() else f"not one sequence of {contexts[-1]} tokens fits on this device"
    if question.max_batch is None and why is not None:
        raise InputError(f"--context: {why}")
    engine = engine_of(scenario.machine.calibration)
    most = question.max_batch or _default_batch(engine)
    tables, seats = _tables(scenario, question, contexts, room, most)
    instead = _why_single(tables[0], engine, question) if contexts == (tables[0].context_high,) else None
    if instead is not None:
        tables = (tables[0].single(),)
    vendor = scenario.machine.gpu.vendor
    runs = runs_in(engine, scenario.draft, question.engine, question.dp, vendor)
    served, draft_path = served_with(question, scenario, query.draft or scenario.draft.name)
    by_context = len(tables) > 1 or tables[0].context_low == 0
    rows = five_item_rows(tables) if by_context else None
    answered = []
    for table in tables:
        lines = _lines(scenario, table, served, draft_path) if why is None else no_line(why)
        answered.append(_answered(scenario, table, instead, lines))
    doubts = (*_left_out(contexts, seats, question.max_batch), *_warnings(scenario, query, tables))
    return Schedule(
        model=asked_name(question.model, scenario.target),
        shape=scenario.target.name,
        hardware=scenario.machine.gpu.label,
        tp=query.tp,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        acceptance_source=scenario.known_acceptance.source,
        tables=tuple(answered),
        num_speculative_tokens_per_batch_and_context=None if rows is None else tuple(map(tuple, rows)),
        runs_in=None if runs is None else runs.text,
        does_not_fit=why,
        calibration=Calibrated.of(scenario),
        warnings=doubts,
    )


def _query(question: ScheduleQuery, contexts: tuple[int, ...]) -> Query:
    """The question in the form of `whatif`, about the largest batch at the longest context."""
    query = question.query(batch=question.max_batch or 1, context=contexts[-1], gamma=question.gamma or None)
    if question.draft_path is not None and query.draft == "mtp":
        return replace(query, draft="mtp:modules=1")  # a path names one head
    return query


def _default_batch(engine: str | None) -> int:
    """The largest batch of a table if the question states none. Memory may allow fewer sequences."""
    served_by = serving_engines().get(engine or "")
    slots = None if served_by is None else served_by.slots
    return slots or MAX_BATCHES


def _answered(scenario: Scenario, table: LengthTable, instead: str | None, lines: Export) -> ScheduleTable:
    """The table of the answer, with the intervals of its ranges, command lines and files of the engines."""
    ranges = tuple(_with_interval(r, scenario, table.context_high) for r in table.ranges)
    values = {f.name: getattr(table, f.name) for f in fields(table)} | {"ranges": ranges}
    costs = None
    if scenario.draft.kind == "dspark":
        costs = _costs(scenario, table)
    confidence = None
    if scenario.known_acceptance.bins:
        batches = _doublings(table).astype(float)
        confidence = by_confidence(scenario, batches, float(table.context_high))
    return ScheduleTable(
        **values,
        export=lines,
        instead=instead,
        sglang_costs=costs,
        by_confidence=confidence,
        gain=table.speedup / table.constant_speedup,
    )


def _lines(scenario: Scenario, table: LengthTable, served: ServedTarget, draft_path: str | None) -> Export:
    """The command lines for one table. The question's engine gets no command line if a known defect slows its
    drafts.
    """
    engine = engine_of(scenario.machine.calibration)
    defect = slowing(scenario, float(table.context_high))
    withheld = {} if defect is None else {str(engine): defect_warning(defect)}
    return export(table, scenario.draft, served, draft_path, withheld)


def _costs(scenario: Scenario, table: LengthTable) -> dict[str, Any] | None:
    """Iterations per second by verified tokens, in the form of SGLang's profiler (dspark_sps.py of 0.5.23).

    SGLang's scheduler ends a draft if one more token costs more time than its confidence is worth.
    """
    gamma = table.max_tokens
    batches = _doublings(table)
    if not gamma:
        return None
    seconds = predict(scenario, Workload.of(batches, float(table.context_high), gamma), gamma).iteration_s
    tokens = (batches * (gamma + 1)).tolist()
    rates = [float(f"{1.0 / s:.4g}") for s in np.asarray(seconds).tolist()]
    return {"sample_batch_tokens": tokens, "sample_steps_per_sec": rates, "max_batch_tokens": tokens[-1]}


def _with_interval(r: Range, scenario: Scenario, context: int) -> Range:
    """The range with the interval of its speedup."""
    batch = float(round(math.sqrt(r.low * r.high)))
    return replace(r, interval=speedup_interval(scenario, batch, float(context), r.draft, r.draft_speedup))


def _doublings(table: LengthTable) -> NDArray[np.int64]:
    """Batch sizes 1, 2, 4, ..., and the largest one of the table."""
    most = table.ranges[-1].high
    return np.unique([*(2**n for n in range(most.bit_length())), most])


def _warnings(scenario: Scenario, query: Query, tables: tuple[LengthTable, ...]) -> tuple[str, ...]:
    """Warnings about the largest batch at the longest context."""
    longest = tables[-1]
    batch = longest.ranges[-1].high
    context = float(longest.context_high)
    gamma = max(t.max_tokens for t in tables)
    room = memory_of(scenario, float(batch), context, float(gamma), query.memory_fraction)
    return warnings(query, scenario, batch, context, gamma, room.single())


def _left_out(contexts: tuple[int, ...], seats: list[int], max_batch: int | None) -> Iterator[str]:
    """Notes about the requested batches that do not fit in memory, by context. There is no note for a context
    at which not even one sequence fits.
    """
    for context, most in zip(contexts, seats, strict=True):
        if max_batch is not None and most < max_batch:
            where = f" at {context} tokens" if len(contexts) > 1 else ""
            yield f"batches above {most} do not fit{where} and are left out"


def _room(scenario: Scenario, query: Query, contexts: tuple[int, ...]) -> NDArray[np.int64]:
    """The largest batch that fits in memory, of shape ``[context, K]``."""
    lengths = np.arange(scenario.longest(query.max_gamma) + 1.0)
    ends = np.array(contexts, float)[:, None]
    return np.asarray(memory_of(scenario, 1.0, ends, lengths, query.memory_fraction).max_batch).astype(int)


def _tables(
    scenario: Scenario, question: ScheduleQuery, contexts: tuple[int, ...], room: NDArray[np.int64], most: int
) -> tuple[tuple[LengthTable, ...], list[int]]:
    """The tables, and the largest batch of each. Every batch of a table fits in memory together with the
    recurrent states that the table's longest draft needs.
    """
    given = (question.alpha, question.rate, question.tokens_per_iteration)
    by_context = None
    if all(value is None for value in given):
        rows = None if question.acceptance is None else read_acceptance(question.acceptance)
        by_context = acceptance_by_context(
            question.model, scenario.target, scenario.draft, rows, question.task, head=question.draft
        )
    # if no batch fits, the table has the requested batches, and a warning says that they do not fit
    fitting = np.minimum(np.where(room.any(1, keepdims=True), room, MAX_BATCH), most)
    longest = int(np.flatnonzero(fitting[-1])[-1])
    # shorter drafts leave memory for larger batches, until the longest draft of a table is the one assumed
    while True:
        seats = fitting[:, longest].tolist()
        tables = length_tables(scenario, contexts, seats, longest, question.hysteresis, by_context)
        drafted = max(t.max_tokens for t in tables) or longest
        if fitting[:, drafted].tolist() == seats:
            return tables, seats
        longest = drafted


def _why_single(table: LengthTable, engine: str | None, question: ScheduleQuery) -> str | None:
    """The reason to prefer the best single length. Returns None if the table gains more than its cost and
    more than `LEAST_GAIN`.
    """
    serving = serving_engines().get(engine or "")
    if len(table.ranges) == 1 or serving is None:
        return None
    mode = serving.dynamic
    price = float(mode.price if mode else 0.0) if question.dynamic_price is None else question.dynamic_price
    least = max(1.0 + LEAST_GAIN, 1.0 / (1.0 - price) if price < 1 else math.inf)
    gain = table.speedup / table.constant_speedup
    if gain > least:
        return None
    costs = f"the {price:.0%} that {serving.title}'s dynamic mode costs"
    if mode is not None and question.dynamic_price is None:
        costs += f" ({mode.source.partition(':')[0]}; --dynamic-price sets another cost)"
    needed = costs if least > 1.0 + LEAST_GAIN else f"the {LEAST_GAIN:.0%} that a table must gain"
    over = f"{gain - 1:.1%} over a constant {table.best_constant}"
    return f"a draft length per batch size would gain {over}, which is not more than {needed}"
