"""Computes how many prefix-cache hits are lost because of a draft, whether the draft still pays off, and
which changes would help.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.load.acceptance_along import along_turns
from perfmodel.answers.load.closed_rows import closed_rows
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.queueing.policies import Choice, Fixed, Replica, in_words
from perfmodel.queueing.prefix import prefix_blocks
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import engine_of
from perfmodel.speculation import Scenario

LONGEST_TRIED = 4
"""Longest draft length that is tried in addition to those of the question."""


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """An alternative to the draft length of a `PrefixVerdict`.

    - change: another draft length or an option of the engine.
    - hit_rate, net_s, pays: as in `PrefixVerdict`.
    """

    change: str
    hit_rate: float
    net_s: float | None
    pays: bool


@dataclass(frozen=True, slots=True)
class PrefixVerdict:
    """A comparison of one draft length with the baseline, at one load of a server with a prefix cache.

    - hit_rate_without, hit_rate: share of prompt tokens that the cache holds, without a draft and with it.
    - block: number of tokens of a cache block.
    - dropped_tokens: number of tokens of each hit that are computed again because of the draft.
    - decode_gain_s: mean time per request that decoding with the draft saves, in seconds.
    - recomputed_s: mean time per request by which lost hits lengthen prefill.
    - net_s: mean time by which a request ends earlier with the draft; None if the server is saturated with or
      without it.
    - pays: whether requests end earlier with the draft or, on a saturated server, more of them are served.
    - changes: alternatives, the best first.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    hit_rate_without: float
    hit_rate: float
    block: int
    dropped_tokens: int
    decode_gain_s: float
    recomputed_s: float
    net_s: float | None
    pays: bool
    changes: tuple[PrefixChange, ...]


def prefix_verdicts(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    by_load: Sequence[Sequence[TrafficRow]],
) -> tuple[PrefixVerdict, ...]:
    """A verdict for each load at which the server runs requests with a draft. The verdict is about the draft
    length with the shortest mean time of a request.
    """
    others = _Others(replace(question, slo=None), replica)
    verdicts = []
    for load_index, (baseline, *rows) in enumerate(by_load):
        drafted = [row for row in rows if row.running_mean > 0]
        if drafted and baseline.running_mean:
            best = min(drafted, key=_rank)
            passes = {c.gamma: c.steps for c in choices if c.gamma and c.steps.seats and load_index in c.at}
            verdicts.append(_verdict(others, load_index, baseline, best, passes))
    return tuple(verdicts)


class _Others:
    """The alternatives on the same replica. Each alternative is predicted once for all loads."""

    def __init__(self, question: TrafficQuery, replica: Replica) -> None:
        self.question = question
        self.replica = replica
        self.lengths = [k for k, steps in replica.passes.items() if 0 < k <= LONGEST_TRIED and steps.seats]
        self.rows = dict[StepTimes, list[TrafficRow]]()
        self.passes = dict[int, list[StepTimes]]()

    def row(self, steps: StepTimes, load_index: int) -> TrafficRow:
        """The row of these passes at one load."""
        if steps not in self.rows:
            choice = Choice(Fixed(steps.gamma), steps.gamma, steps, self.replica.everywhere)
            self.rows[steps] = closed_rows(self.question, choice, None, self.question.loop.values)
        return self.rows[steps][load_index]

    def priced(self, gamma: int, *blocks: int) -> list[StepTimes]:
        """The passes with cache blocks of each of these sizes, if the engine drops no block because of a
        draft.
        """
        if gamma not in self.passes:
            r = self.replica
            reuse = self.question.reusing
            engines = [replace(reuse.engine, block=block, keeps=True) for block in blocks]
            found = step_times(
                r.scenario, r.lengths, r.limits, [gamma] * len(blocks), reuse=reuse, engines=engines
            )
            self.passes[gamma] = [along_turns(self.question, r.scenario, steps) for steps in found]
        return self.passes[gamma]


def _verdict(
    others: _Others,
    load_index: int,
    baseline: TrafficRow,
    best: TrafficRow,
    passes: Mapping[int | str, StepTimes],
) -> PrefixVerdict:
    """The verdict at one load. Changes are computed with the closed form, so they are compared with the
    closed form's baseline.

    - passes: draft length or policy -> its passes.
    """
    steps = passes[best.gamma]
    none = others.replica.passes[0].cached
    cache = steps.cached
    replica = others.replica
    assert none is not None
    assert cache is not None
    tried: dict[int | str, StepTimes] = {gamma: replica.passes[gamma] for gamma in others.lengths}
    tried |= passes
    order = [*passes, *(gamma for gamma in others.lengths if gamma not in passes)]
    rest = [gamma for gamma in order if gamma != best.gamma]
    changes = [(in_words(gamma), others.row(tried[gamma], load_index)) for gamma in rest]
    kept, found = others.priced(steps.gamma, cache.law.block, none.law.block)
    option = prefix_blocks(replica.scenario).keeps
    if cache.law.dropped and option:
        changes.append((option, others.row(kept, load_index)))
    running = np.array([max(best.running_mean, 1.0)])
    again = float((steps.prompt_at(running) - found.prompt_at(running))[0])
    net_s, pays = _net(baseline, best)
    closed = others.row(replica.passes[0], load_index)
    compared = [PrefixChange(name, row.prefix_hit_rate or 0.0, *_net(closed, row)) for name, row in changes]
    return PrefixVerdict(
        request_rate=best.request_rate,
        concurrency=best.concurrency,
        gamma=best.gamma,
        hit_rate_without=baseline.prefix_hit_rate or 0.0,
        hit_rate=best.prefix_hit_rate or 0.0,
        block=cache.law.block,
        dropped_tokens=cache.law.block * cache.law.dropped,
        decode_gain_s=(baseline.tpot_s.mean - best.tpot_s.mean) * replica.lengths.decoded,
        recomputed_s=again,
        net_s=net_s,
        pays=pays,
        changes=tuple(sorted(compared, key=_order)),
    )


def _order(change: PrefixChange) -> tuple[bool, float]:
    """A sort key for changes. Changes that pay off come first. The second criterion is the net time, with the
    largest first. An unknown net time counts as the largest.
    """
    net_s = math.inf if change.net_s is None else change.net_s
    return not change.pays, -net_s


def _rank(row: TrafficRow) -> tuple[bool, float]:
    """A sort key for rows; smaller keys are better. Rows are sorted by the mean time of a request. Rows of
    saturated servers come last, sorted by the rate that they serve.
    """
    if row.e2e_s is None:
        return (True, -row.requests_per_s)
    return (False, row.e2e_s.mean)


def _net(baseline: TrafficRow, row: TrafficRow) -> tuple[float | None, bool]:
    """The mean time by which a request ends earlier than with the baseline, in seconds, and whether the draft
    pays off.
    """
    net_s = None if baseline.e2e_s is None or row.e2e_s is None else baseline.e2e_s.mean - row.e2e_s.mean
    return net_s, _rank(row) < _rank(baseline)


def prefix_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Warnings about effects of a draft on the prefix cache that are not modelled."""
    notes = []
    if scenario.draft.reads_cache and not scenario.draft.views_target_cache:
        notes.append(
            "after a prefix hit the draft's own cache may be missing; acceptance is then lower (sglang#31600)"
        )
    engine = engine_of(scenario.machine.calibration)
    if scenario.target.linear_attention is not None and not prefix_blocks(scenario).raised:
        notes.append(
            f"how {engine} keeps recurrent states in its prefix cache is not known: give --prefix-block"
        )
    return tuple(notes)
