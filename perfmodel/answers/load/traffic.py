"""A server under a request rate: latency, throughput and replicas, with and without a draft. See
docs/traffic.md.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import asks
from perfmodel.answers.load.acceptance_along import along_turns
from perfmodel.answers.load.closed_rows import closed_rows
from perfmodel.answers.load.draft_limits import DraftLimits, draft_limits
from perfmodel.answers.load.fewer_seats import of_default, of_seats
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.ladder import Ladder
from perfmodel.answers.load.load_verdict import TrafficVerdict, verdict_of
from perfmodel.answers.load.mixed_classes import ClassRow, check_mix, mix_values
from perfmodel.answers.load.offload import Offload, offload_of
from perfmodel.answers.load.pools import Pools, one_server, pools_of, tier_of_prefill
from perfmodel.answers.load.prefix_verdict import PrefixVerdict, prefix_verdicts, prefix_warnings
from perfmodel.answers.load.replayed_rows import check_size, replayed_rows
from perfmodel.answers.load.rising import never_falling
from perfmodel.answers.load.rollout import AgedServer, RolloutRow, rollout_values, rollouts
from perfmodel.answers.load.tpot_errors import log_errors
from perfmodel.answers.load.traced import check_fits, trace_of, trace_values
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, TrafficRow, flat
from perfmodel.answers.point.verdict import Calibrated
from perfmodel.answers.question import (
    Named,
    Query,
    doubts,
    resolve,
    resolve_costs,
    slowing,
    usual_draft,
)
from perfmodel.answers.question.placement import cuts_heads
from perfmodel.answers.text import Note, devices
from perfmodel.errors import library, refuse
from perfmodel.queueing.latency import possible_spread
from perfmodel.queueing.policies import Choice, Fixed, Replica, in_words
from perfmodel.queueing.steps import step_times
from perfmodel.specs import ModelSpec, UnknownAcceptance, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.specs.engines.serving import untimed_prompts
from perfmodel.speculation import Acceptance, KVCapacity, Scenario, check_draft_length, kv_cache_of

if TYPE_CHECKING:
    from pandas import DataFrame

SHORTER = "TTFT and TPOT may be shorter at a higher load"


@dataclass(frozen=True, repr=False)
class Traffic(Answer):
    """One row for each load and draft length, the baseline first, and the conclusions from them.

    verdict: ``unknown_acceptance`` if no acceptance of the draft is known; the answer then has only the
    baseline. prefix: with a prefix cache, what the draft costs it at each load. replay: the rows of a replay
    that was asked for, which are also in `rows`. kv_cache: what one server with the longest draft logs at its
    start. pools: the answer about two pools; the rows are then those of the same devices as servers of the
    decode layout that do both, each with its share of the load. offload: caches of earlier prompts on another
    tier.
    """

    rows: tuple[TrafficRow, ...]
    verdict: str
    verdicts: tuple[TrafficVerdict, ...]
    drafts: tuple[DraftLimits, ...]
    prefix: tuple[PrefixVerdict, ...] | None
    replay: tuple[TrafficRow, ...] | None
    classes: tuple[ClassRow, ...] | None
    rollout: tuple[RolloutRow, ...] | None
    model: str
    hardware: str
    tp: int
    draft: str
    draft_kv: str
    acceptance_source: str
    acceptance_std: float
    acceptance_std_source: str
    calibration: Calibrated
    kv_cache: KVCapacity
    warnings: tuple[str, ...]
    pools: Pools | None = None
    offload: Offload | None = None

    def headline(self) -> str:
        if self.pools is not None:
            return self.pools.sentence
        return f"{self.verdicts[-1].reason}; {self.model} on {devices(self.hardware, self.tp)}"

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row per load and draft length; times by statistic, such as ``tpot_s_p99``."""
        return library("pandas").DataFrame([flat(row) for row in self.rows])


@asks(TrafficQuery)
def traffic(question: TrafficQuery) -> Traffic:
    """Should this server speculate under this request rate (or concurrency), with which draft length, and on
    how many replicas?

    Rates are of one replica, or of all pools; where it is saturated the row says so. Raises InputError.
    """
    if question.decode is None:
        return _of_servers(question)
    question = completed(question)[0].planned
    pools = pools_of(question)
    offload = tier_of_prefill(question, max(pools.ratio)) if question.kv_offload else None
    return replace(_of_servers(one_server(question)), pools=pools, offload=offload)


def _of_servers(question: TrafficQuery) -> Traffic:
    """The answer about servers that read prompts and decode."""
    draft = question.draft
    question, spread_source = completed(question)
    query = _query(question)
    scenario, known = _scenario(question, query)
    check_lengths(question, scenario.target)
    replica = _replica(question, scenario, known)
    choices = _choices(question, replica) if known else list(Fixed(0).choices(replica))
    log_off = log_errors(question, scenario, list({c.steps.gamma: c.steps for c in choices}.values()))
    closed = _closed_rows(question, scenario, choices, log_off)
    by_load, classes = _one_row_per_load(question, replica, choices, closed, log_off)
    by_load = never_falling(by_load)
    broken = slowing(scenario, _mean_context(question)) is not None
    verdicts = tuple(verdict_of(question, rows[:1] if broken else rows, known) for rows in by_load)
    pays = "speculate" if any(v.gamma for v in verdicts) else "do_not_speculate"
    rows = tuple(row for rows in by_load for row in rows)
    longest = scenario.target.max_position_embeddings
    rolled_out = None
    if question.rollout is not None:
        rolled_out = rollouts(question, _aged_servers(question, replica, choices), longest)
    replayed = None
    if question.replays:
        replayed = tuple(row for row in rows if row.made_by is MadeBy.REPLAY)
    prefix = None
    if known and question.reuse is not None:
        prefix = prefix_verdicts(question, replica, choices, by_load)
    longest_draft = _longest_advised(verdicts) or max(replica.passes)
    warnings = _warnings(question, replace(query, draft=draft), scenario, longest_draft)
    warnings += tuple(of_seats(replica.passes[0], question.lengths, question.most_at_once))
    warnings += tuple(of_default(question.limits, longest_draft > 0, question.most_at_once))
    warnings += tuple(_may_be_shorter(question, choices))
    limits = [draft_limits(replica, choice) for choice in choices[1:]]
    cache = kv_cache_of(scenario, longest_draft, question.memory_fraction)
    return Traffic(
        rows=rows,
        verdict=pays if known else "unknown_acceptance",
        verdicts=verdicts,
        drafts=tuple(limits),
        prefix=prefix,
        replay=replayed,
        classes=tuple(classes) if question.mix is not None else None,
        rollout=rolled_out,
        model=scenario.target.name,
        hardware=scenario.machine.gpu.label,
        tp=question.tp,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        acceptance_source=scenario.acceptance_source if known else "unknown",
        acceptance_std=question.spread,
        acceptance_std_source=spread_source,
        calibration=Calibrated.of(scenario),
        kv_cache=cache,
        warnings=warnings,
        offload=offload_of(question, scenario, longest_draft) if question.kv_offload else None,
    )


@dataclass(frozen=True, slots=True)
class RowsByLoad:
    """The rows of `traffic` by load, the baseline first, without intervals and notes. known: whether the
    draft's acceptance is.
    """

    question: TrafficQuery
    by_load: list[list[TrafficRow]]
    known: bool

    @property
    def verdict(self) -> TrafficVerdict:
        """The recommendation at the first load."""
        return verdict_of(self.question, self.by_load[0], self.known)


def compared(question: TrafficQuery, replays: bool) -> RowsByLoad:
    """What a server is compared with others by: the closed form alone, or the rows of `traffic`, some of
    which are replays.
    """
    question, _ = completed(question)
    scenario, known = _scenario(question, _query(question))
    check_lengths(question, scenario.target)
    replica = _replica(question, scenario, known)
    choices = _choices(question, replica) if known else list(Fixed(0).choices(replica))
    without = dict.fromkeys(replica.passes)
    by_load = _closed_rows(question, scenario, choices, without)
    if replays:
        by_load, _ = _one_row_per_load(question, replica, choices, by_load, without)
        by_load = never_falling(by_load)
    if slowing(scenario, _mean_context(question)) is not None:
        by_load = [rows[:1] for rows in by_load]
    return RowsByLoad(question, by_load, known)


def completed(question: TrafficQuery) -> tuple[TrafficQuery, str]:
    """The question with all that its files, its model and its engine say where it says nothing; and the
    source of the spread of acceptance between requests. Raises InputError.
    """
    values = mix_values(question) | trace_values(question) | rollout_values(question)
    named = Named.of(question)
    if question.draft is None:
        engine = engine_of(named.calibration)
        values["draft"] = usual_draft(question.model, named.target, engine, question.engine)
    published = request_constants().acceptance_std.get(named.target.name)
    source = "assumed"
    if question.acceptance_std is not None:
        source = "as given"
    elif published is not None:
        values["acceptance_std"] = published.value
        source = published.source
    return replace(question, **values) if values else question, source


OVER_HOST = (
    "long prompts wait for messages through host memory; NCCL_SHM_USE_CUDA_MEMCPY=1 was several times as "
    "fast there (sgl-project/sglang#39605)"
)
"""What is known of prompts on devices without access to one another's memory."""


def check_lengths(question: TrafficQuery, target: ModelSpec) -> None:
    """Refuse (InputError) requests that are longer than the model's positions."""
    longest = target.max_position_embeddings
    if question.trace is not None:
        check_fits(question.trace, trace_of(question.trace), target)
    if question.mix is not None:
        check_mix(question.mix, longest)
    total = f"--input-len {question.input_len} and --output-len {question.output_len}"
    if question.turns > 1:
        total += f" in {question.turns} turns ({question.longest} tokens)"
    check_positions(question.longest, total, target)


def _longest_advised(verdicts: Sequence[TrafficVerdict]) -> int:
    """The longest single draft length that is recommended at a load; 0 without one."""
    return max((v.gamma for v in verdicts if isinstance(v.gamma, int)), default=0)


def check_positions(tokens: int, stated: str, target: ModelSpec) -> None:
    """Refuse (InputError) requests of more tokens than the model has positions. stated: their lengths."""
    longest = target.max_position_embeddings
    if tokens > longest:
        allowed = f"at most the {longest} positions of {target.name}, with the output"
        raise refuse("--input-len", None, allowed, stated)


def _closed_rows(
    question: TrafficQuery,
    scenario: Scenario,
    choices: Sequence[Choice],
    log_off: Mapping[int, float | None],
) -> list[list[TrafficRow]]:
    """The rows of the closed form by load, in the order of the choices."""
    by_load: list[list[TrafficRow]] = [[] for _ in question.loop.values]
    for choice in choices:
        off = log_off[choice.steps.gamma]
        rows = closed_rows(question, choice, off, question.loop.values[choice.at])
        for load, row in zip(choice.at.tolist(), rows, strict=True):
            by_load[load].append(with_intervals(row, off, scenario))
    return by_load


def _one_row_per_load(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    closed: Sequence[list[TrafficRow]],
    log_off: Mapping[int, float | None],
) -> tuple[list[list[TrafficRow]], list[ClassRow]]:
    """The rows by load, and those of the classes of a mix. A load for which the closed form does not hold, or
    for which a replay was asked, has the rows of a replay.
    """
    simulated = [question.replays or any(row.doubts for row in rows) for rows in closed]
    if question.closed_form or question.rollout is not None:
        simulated = [False for _ in closed]
        closed = [[_as_doubted(row) for row in rows] for rows in closed]
    count = sum(len(rows) for rows, one in zip(closed, simulated, strict=True) if one)
    check_size(question, count, choices)
    if question.draws and question.rollout is None:
        return _on_ladders(question, replica, choices, closed, log_off, simulated), []
    by_load = list[list[TrafficRow]]()
    classes = list[ClassRow]()
    for at, (load, rows) in enumerate(zip(question.loop.values.tolist(), closed, strict=True)):
        if not simulated[at]:
            by_load.append(rows)
            continue
        there = [choice for choice in choices if at in choice.at]
        met, of_classes = replayed_rows(question, replica, there, rows, log_off, load)
        by_load.append(met)
        classes += of_classes
    return by_load, classes


def _on_ladders(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    closed: Sequence[list[TrafficRow]],
    log_off: Mapping[int, float | None],
    simulated: Sequence[bool],
) -> list[list[TrafficRow]]:
    """The rows of drawn requests by load. A row of the closed form stays where it holds, or where no request
    fits.
    """
    ladders = {
        choice.gamma: Ladder(question, replica, choice, log_off.get(choice.steps.gamma))
        for choice in choices
        if choice.steps.seats
    }

    def at_load(load: float, row: TrafficRow, replayed: bool) -> TrafficRow:
        ladder = ladders.get(row.gamma)
        if ladder is None:
            return row
        if replayed and (question.replays or row.doubts):
            row = ladder.replayed(load, row)
        return ladder.bounded(load, row)

    return [
        [at_load(load, row, replayed) for row in rows]
        for load, rows, replayed in zip(question.loop.values.tolist(), closed, simulated, strict=True)
    ]


def _as_doubted(row: TrafficRow) -> TrafficRow:
    """A row of the closed form outside its range says so."""
    notes = tuple(f"the closed form may be off: {doubt}" for doubt in row.doubts)
    return replace(row, warnings=row.warnings + notes)


def _aged_servers(
    question: TrafficQuery, replica: Replica, choices: Sequence[Choice]
) -> Iterator[AgedServer]:
    """The server at the question's acceptance, or one for each age with its acceptance."""
    if question.alpha_by_age is None:
        yield AgedServer(None, None, replica, choices)
    for age, alpha in question.alpha_by_age or ():
        aged = _replica(question, replace(replica.scenario, acceptance=Acceptance.from_alpha(alpha)), True)
        yield AgedServer(age, alpha, aged, _choices(question, aged))


def _mean_context(question: TrafficQuery) -> float:
    """Tokens of a request in the middle of its answer."""
    return question.lengths.input_mean + question.lengths.output_mean / 2.0


def _warnings(question: TrafficQuery, query: Query, scenario: Scenario, gamma: int) -> tuple[str, ...]:
    """Warnings: the doubts of the question, and what is known to go wrong at the mean context.

    gamma: the longest draft; 0 without a draft.
    """
    notes = doubts(query, scenario, 1.0, _mean_context(question), gamma)
    engine = engine_of(scenario.machine.calibration)
    if known := untimed_prompts(engine):
        notes += (f"TTFT is a rough guide without an interval: {known}",)
    machine = scenario.machine
    if machine.over_host and not machine.gpu.peer_access and cuts_heads(engine):
        notes += (Note(f"{machine.tensor_parallel} x {machine.gpu.name}: {OVER_HOST}"),)
    if not gamma:
        return notes
    if question.reuse:
        notes += prefix_warnings(scenario)
    alpha = scenario.known_acceptance.effective_alpha(gamma)
    spread = question.acceptance_std
    possible = possible_spread(alpha, spread) if spread and 0 < alpha < 1 else spread
    if possible and spread and not math.isclose(possible, spread):
        around = f"requests cannot differ by {spread:g} around an acceptance of {alpha:.3g}"
        notes += (f"{around}: {possible:.2g} is used",)
    return notes


def _may_be_shorter(question: TrafficQuery, choices: Sequence[Choice]) -> Iterator[Note]:
    """Rows whose times may be shorter in another question about a higher load."""
    if question.rollout is not None:
        return
    if not question.draws:
        whose = "a trace" if question.mix is None else "a mix"
        yield Note(f"requests of {whose} are replayed at each load: {SHORTER} by chance")
    policies = [choice.gamma for choice in choices if isinstance(choice.gamma, str)]
    for policy in policies:
        yield Note(f"with {in_words(policy)} draft lengths change with the load: {SHORTER}")


def _replica(question: TrafficQuery, scenario: Scenario, known: bool) -> Replica:
    """The replica, with the passes of all draft lengths that a policy of the question may choose.

    Raises InputError for a length that the draft cannot make.
    """
    longest = scenario.longest(question.max_gamma)
    lengths = {0}
    for policy in question.gamma:
        lengths |= set(policy.lengths(longest)) if known else set()
    check_draft_length(scenario.draft, max(lengths))
    priced = step_times(scenario, question.lengths, question.limits, sorted(lengths), reuse=question.reuse)
    if question.turns > 1:
        priced = [along_turns(question, scenario, t) for t in priced]
    load = question.loop.load(question.loop.values)
    passes = {t.gamma: t for t in priced}
    return Replica(scenario, question.limits, load, passes, question.spread)


def _choices(question: TrafficQuery, replica: Replica) -> list[Choice]:
    """The baseline, then the choices of each policy. A repeated draft length is left out."""
    choices: dict[int | str, Choice] = {}
    for policy in (Fixed(0), *sorted(question.gamma, key=lambda each: each.tokens is None)):
        for choice in policy.choices(replica):
            choices.setdefault(choice.gamma, choice)
    return list(choices.values())


def _query(question: TrafficQuery) -> Query:
    """The point at which the names, formats and acceptance of the question are resolved."""
    stated = question.stated_lengths
    return question.query(
        batch=1,
        context=max(round(question.lengths.context), 1),
        gamma=None if stated is None else max(stated),
        max_num_seqs=question.group_seats,
    )


def _scenario(question: TrafficQuery, query: Query) -> tuple[Scenario, bool]:
    """The scenario, and whether its acceptance is known."""
    try:
        return resolve(query), True
    except UnknownAcceptance:
        if question.acceptance is not None:
            raise
        return resolve_costs(query), False
