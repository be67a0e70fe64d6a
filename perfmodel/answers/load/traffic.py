"""A server under a request rate: latency, throughput and replicas, with and without a draft. See
docs/traffic.md.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.answers.advice.draft_lengths import runs
from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import asks
from perfmodel.answers.load.acceptance_along import along_turns
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.mixed_classes import ClassRow, class_rows, with_mix
from perfmodel.answers.load.prefix_verdict import PrefixVerdict, prefix_verdicts, prefix_warnings
from perfmodel.answers.load.rollout import AgedServer, RolloutRow, rollouts, with_rollout
from perfmodel.answers.load.traced import check_fits, trace_of, with_trace
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_replay import replayed
from perfmodel.answers.load.traffic_rows import TrafficRow, flat, log_errors, rows_of
from perfmodel.answers.point.verdict import Calibrated
from perfmodel.answers.question import (
    UNUSED,
    Named,
    Query,
    doubts,
    resolve,
    slowing,
    usual_draft,
)
from perfmodel.answers.text import clients, devices
from perfmodel.errors import library, refuse
from perfmodel.queueing.closed import mean_tpot_s
from perfmodel.queueing.latency import possible_spread
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies import Choice, Fixed, Replica, in_words
from perfmodel.queueing.policies.auto import Auto
from perfmodel.queueing.steps import StepTimes, step_times
from perfmodel.specs import UnknownAcceptance, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.speculation import Acceptance, Scenario, check_draft_length

if TYPE_CHECKING:
    from pandas import DataFrame

SCANNED = 24
"""Number of rates in the search for the rate at which speculation stops paying."""
UNASKED = 4
"""Largest number of loads that are replayed without `--replay`, because a picture may have dozens."""
SHARE_DIGITS, RATE_DIGITS = 3, 6
"""Decimals at which shares within the SLO, and rates, are compared. A smaller difference is a tie."""


@dataclass(frozen=True, slots=True)
class TrafficVerdict:
    """The recommendation at one load. gamma: the draft length that serves the most requests within the SLO.
    On a tie the lowest TPOT decides, or with a prefix cache the earliest end of a request.

    speedup: the baseline's mean TPOT over that of this length. dollars_per_million_tokens: per million output
    tokens, on all replicas that the load needs.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    speedup: float
    replicas: int | None
    dollars_per_million_tokens: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """The saturation rate of one draft length, and the load from which it is slower than the baseline (or
    None).

    table: rows of [first batch, last batch, tokens] for a policy with a table. over_best_fixed: for a policy
    that changes its length, the lowest mean TPOT of a single length over its own, at each load.
    """

    gamma: int | str
    saturation_rate: float | None
    stops_paying_at: float | None
    table: tuple[tuple[int, int, int], ...] | None = None
    over_best_fixed: tuple[float, ...] | None = None


@dataclass(frozen=True, repr=False)
class Traffic(Answer):
    """One row for each load and draft length, the baseline first, and the conclusions from them.

    verdict: ``unknown_acceptance`` if no acceptance of the draft is known; the answer then has only the
    baseline. prefix: with a prefix cache, what the draft costs it at each load.
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
    warnings: tuple[str, ...]

    def headline(self) -> str:
        return f"{self.verdicts[-1].reason}; {self.model} on {devices(self.hardware, self.tp)}"

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row per load and draft length; times by statistic, such as ``tpot_s_p99``."""
        return library("pandas").DataFrame([flat(row) for row in self.rows])


@asks(TrafficQuery)
def traffic(question: TrafficQuery) -> Traffic:
    """Should this server speculate under this request rate (or concurrency), with which draft length, and on
    how many replicas?

    Rates are of one replica; where it is saturated the row says so. Raises InputError.
    """
    given = question.draft
    question = with_rollout(with_trace(with_mix(question)))
    if question.draft is None:
        named = Named.of(question)
        question = replace(
            question,
            draft=usual_draft(question.model, named.target, engine_of(named.calibration), question.engine),
        )
    query = _query(question)
    scenario, known = _scenario(question, query)
    most = scenario.target.max_position_embeddings
    if question.trace is not None:
        check_fits(question.trace, trace_of(question.trace), scenario.target)
    if question.longest > most:
        total = f"--input-len {question.input_len} and --output-len {question.output_len}"
        if question.turns > 1:
            total += f" in {question.turns} turns ({question.longest} tokens)"
        raise refuse(
            "--input-len",
            None,
            f"at most the {most} positions of {scenario.target.name}, with the output",
            total,
        )
    question, spread = _with_spread(question, scenario.target.name)
    replica = _replica(question, scenario, known)
    choices = _choices(question, replica) if known else list(Fixed(0).choices(replica))
    by_load: list[list[TrafficRow]] = [[] for _ in question.loads]
    off = log_errors(question, scenario, [*{c.steps.gamma: c.steps for c in choices}.values()])
    for c in choices:
        for at, row in zip(c.at, rows_of(question, c, off[c.steps.gamma]), strict=True):
            by_load[int(at)].append(with_intervals(row, off[c.steps.gamma], scenario))
    broken = slowing(scenario, _mean_context(question)) is not None
    verdicts = tuple(_verdict(question, rows[:1] if broken else rows, known) for rows in by_load)
    pays = "speculate" if any(v.gamma for v in verdicts) else "do_not_speculate"
    return Traffic(
        rows=tuple(row for rows in by_load for row in rows),
        verdict=pays if known else "unknown_acceptance",
        verdicts=verdicts,
        drafts=tuple(_draft_limits(replica, c) for c in choices[1:]),
        prefix=prefix_verdicts(question, replica, choices, by_load) if known and question.reuse else None,
        replay=_replay(question, replica, choices, off, by_load),
        classes=class_rows(question, replica, choices),
        rollout=rollouts(question, _aged_servers(question, replica, choices), most)
        if question.rollout
        else None,
        model=scenario.target.name,
        hardware=scenario.machine.gpu.label,
        tp=question.tp,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        acceptance_source=scenario.acceptance.source if known else "unknown",
        acceptance_std=question.spread,
        acceptance_std_source=spread,
        calibration=Calibrated.of(scenario),
        warnings=_warnings(question, replace(query, draft=given), scenario, max(replica.passes)),
    )


def _with_spread(question: TrafficQuery, model: str) -> tuple[TrafficQuery, str]:
    """The question with the spread of acceptance between requests, and the source of that spread."""
    published = request_constants().acceptance_std.get(model)
    if question.acceptance_std is not None:
        return question, "as given"
    if published is None:
        return question, "assumed"
    return replace(question, acceptance_std=published.value), published.source


def _aged_servers(
    question: TrafficQuery, replica: Replica, choices: Sequence[Choice]
) -> Iterator[AgedServer]:
    """The server at the question's acceptance, or one for each age with its acceptance."""
    if question.alpha_by_age is None:
        yield AgedServer(None, None, replica, choices)
    for age, alpha in question.alpha_by_age or ():
        aged = _replica(question, replace(replica.scenario, acceptance=Acceptance.from_alpha(alpha)), True)
        yield AgedServer(age, alpha, aged, _choices(question, aged))


def _replay(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    off: Mapping[int, float | None],
    by_load: Sequence[Sequence[TrafficRow]],
) -> tuple[TrafficRow, ...] | None:
    """Replays every load if asked to; otherwise the loads whose own warnings recommend the replay."""
    loads = question.loads.tolist()
    if not question.replays:
        loads = [
            load
            for load, rows in zip(loads, by_load, strict=True)
            if any("--replay" in note for row in rows for note in row.warnings)
        ]
    if question.rollout is not None or not (question.replays or 0 < len(loads) <= UNASKED):
        return None
    return replayed(question, replica, choices, off, loads)


def _mean_context(question: TrafficQuery) -> float:
    """Tokens of a request in the middle of its answer."""
    return question.lengths.input_mean + question.lengths.output_mean / 2.0


def _warnings(question: TrafficQuery, query: Query, scenario: Scenario, gamma: int) -> tuple[str, ...]:
    """Warnings: the doubts of the question, and what is known to go wrong at the mean context.

    gamma: the longest draft; 0 without a draft.
    """
    notes = doubts(query, scenario, 1.0, _mean_context(question), gamma)
    if not gamma:
        return notes
    if question.reuse:
        notes += prefix_warnings(scenario)
    alpha = scenario.acceptance.effective_alpha(gamma)
    spread = question.acceptance_std
    possible = possible_spread(alpha, spread) if spread and 0 < alpha < 1 else spread
    if possible and spread and not math.isclose(possible, spread):
        around = f"requests cannot differ by {spread:g} around an acceptance of {alpha:.3g}"
        notes += (f"{around}: {possible:.2g} is used",)
    return notes


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
    load = question.load(question.loads)
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
    numbers = [policy.tokens for policy in question.gamma if policy.tokens is not None]
    gamma = max(numbers) if len(numbers) == len(question.gamma) else None
    return question.query(batch=1, context=max(round(question.lengths.context), 1), gamma=gamma)


def _scenario(question: TrafficQuery, query: Query) -> tuple[Scenario, bool]:
    """The scenario, and whether its acceptance is known."""
    try:
        return resolve(query), True
    except UnknownAcceptance:
        if question.acceptance is not None:
            raise
        return resolve(query, UNUSED), False


def _draft_limits(replica: Replica, c: Choice) -> DraftLimits:
    most, _ = capacity(c.steps, replica.lengths, replica.limits)
    table = None if c.table is None else runs(np.asarray(c.table))
    gains = _over_best_fixed(replica, c.steps) if isinstance(c.gamma, str) and c.steps.seats else None
    return DraftLimits(c.gamma, most, _stops_paying(replica, c.steps), table, gains)


def _over_best_fixed(replica: Replica, steps: StepTimes) -> tuple[float, ...]:
    """At each load, the lowest mean TPOT of a single length (or the baseline), over that of these passes."""
    single = [replica.passes[0], *(choice.steps for choice in Auto().choices(replica))]
    tpot = [mean_tpot_s(t, replica.load, replica.limits) for t in (*single, steps) if t.seats]
    if tpot[:-1]:
        return tuple((np.min(tpot[:-1], 0) / tpot[-1]).tolist())
    return ()


def _stops_paying(replica: Replica, steps: StepTimes) -> float | None:
    """The lowest load from which the mean TPOT is no lower than the baseline's; None where it is always
    lower.
    """
    baseline = replica.passes[0]
    if not (steps.seats and baseline.seats):
        return None
    if replica.load.rate is not None:
        end = min(capacity(t, replica.lengths, replica.limits)[0] for t in (baseline, steps))
        loads = np.linspace(end / SCANNED, end, SCANNED, endpoint=False)
        load = replace(replica.load, rate=loads)
    else:
        loads = np.unique(np.round(np.geomspace(1, min(baseline.seats, steps.seats), SCANNED)))
        load = replace(replica.load, clients=loads)
    slower = [mean_tpot_s(t, load, replica.limits) for t in (baseline, steps)]
    pays = np.flatnonzero(slower[1] < slower[0])
    if not pays.size:
        return float(loads[0])
    if pays[-1] == loads.size - 1:
        return None
    return float(loads[pays[-1] + 1])


def _verdict(question: TrafficQuery, rows: Sequence[TrafficRow], known: bool) -> TrafficVerdict:
    """The verdict from the rows of one load, the baseline first."""
    baseline = rows[0]

    def worth(row: TrafficRow) -> tuple[float, float, float]:
        share = 0.0 if row.slo_share is None else round(row.slo_share, SHARE_DIGITS)
        served = 0.0 if row.ttft_s is not None else round(row.requests_per_s, RATE_DIGITS)
        slow = row.e2e_s if question.reuse and row.e2e_s else row.tpot_s
        return share * row.requests_per_s, served, -slow.mean

    best = max([row for row in rows if row.ttft_s is not None] or rows, key=worth)
    replicas = best.replicas
    groups = 1
    tokens = best.output_tokens_per_s
    dollars = None
    if best.request_rate is not None:
        groups = replicas or 0
        tokens = best.request_rate * question.lengths.output_mean
    if question.price is not None and groups and tokens:
        dollars = question.price * question.tp * groups / 3600.0 * 1e6 / tokens
    speedup = baseline.tpot_s.mean / best.tpot_s.mean
    rate = None if best.request_rate is None else f"{best.request_rate:g} requests/s"
    capped = None if best.concurrency is None else clients(best.concurrency)
    place = " by ".join(filter(None, (rate, capped)))
    if best.running_mean == 0:
        reason = f"{place}: no request fits in memory"
    elif not known:
        reason = f"{place}: no acceptance is known of this draft, so only the baseline is predicted"
    elif best.gamma == 0:
        reason = f"{place}: do not speculate"
    else:
        length = f"by {in_words(best.gamma)}" if isinstance(best.gamma, str) else best.gamma
        reason = f"{place}: draft {length}, TPOT {speedup:.2f}x"
    if replicas is not None:
        reason += f", {replicas} replica{'s' if replicas != 1 else ''}"
    if best.slo_share is not None:
        reason += f", {best.slo_share:.0%} within the SLO on one"
    return TrafficVerdict(best.request_rate, best.concurrency, best.gamma, speedup, replicas, dollars, reason)
