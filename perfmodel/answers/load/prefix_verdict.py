"""What a draft costs the prefix cache at a load, whether it pays all the same, and what would change that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow, rows_of
from perfmodel.queueing.policies import Choice, Fixed, Replica
from perfmodel.queueing.prefix import Engine, prefix_blocks
from perfmodel.queueing.steps import StepTimes, step_times
from perfmodel.specs.calibrations.stacks import engine_of
from perfmodel.speculation.scenario import Scenario

LONGEST_TRIED = 8
"""Draft length up to which others are tried."""


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """Something else to run, and what a request then gains over the baseline, as in `PrefixVerdict`."""

    change: str
    hit_rate: float
    net_s: float | None
    pays: bool


@dataclass(frozen=True, slots=True)
class PrefixVerdict:
    """A draft length at one load of a server with a prefix cache, against the baseline there.

    hit_rate_without, hit_rate: share of prompt tokens that are found, without a draft and with it. block:
    tokens of a block; dropped_tokens: of a hit that are computed again. decode_gain_s, recomputed_s: mean
    seconds of a request that decoding saves, and that prompts take longer for what is not found any more.
    net_s: by which a request ends sooner; None where one of both is saturated. pays: whether it does, or
    whether more requests are served. changes: best first.
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
    """One for each load at which something was drafted: of the length that ends requests soonest."""
    verdicts = []
    for load, rows in zip(question.loads.tolist(), by_load, strict=True):
        drafted = [row for row in rows[1:] if row.running_mean > 0]
        if not drafted or not rows[0].running_mean:
            continue
        best = min(drafted, key=_worth)
        steps = next(choice.steps for choice in choices if choice.gamma == best.gamma)
        verdicts.append(_verdict(replace(question, slo=None), replica, rows[0], best, steps, load))
    return tuple(verdicts)


def _verdict(
    question: TrafficQuery,
    replica: Replica,
    baseline: TrafficRow,
    best: TrafficRow,
    steps: StepTimes,
    load: float,
) -> PrefixVerdict:
    none, own = replica.passes[0].cached, steps.cached
    assert none is not None
    assert own is not None
    asked = question.reusing

    def priced(gamma: int, engine: Engine) -> StepTimes:
        reuse = replace(asked, engine=engine)
        return step_times(replica.scenario, replica.lengths, replica.limits, [gamma], reuse=reuse)[0]

    def changed(name: str, changed_steps: StepTimes) -> PrefixChange:
        at = np.flatnonzero(question.loads == load)[:1]
        row = rows_of(
            question, Choice(Fixed(changed_steps.gamma), changed_steps.gamma, changed_steps, at), None
        )[0]
        return PrefixChange(name, row.prefix_hit_rate or 0.0, *_net(baseline, row))

    changes = []
    if own.law.dropped and (option := asked.engine.option(replica.scenario)):
        kept = priced(steps.gamma, replace(asked.engine, keeps=True))
        changes.append((option, kept))
    changes += [
        (f"{gamma} draft token{'s' * (gamma > 1)}", other)
        for gamma, other in replica.passes.items()
        if 0 < gamma <= LONGEST_TRIED and gamma != best.gamma and other.seats
    ]
    told = [changed(*each) for each in changes]
    found = priced(steps.gamma, Engine(none.law.block, keeps=True))  # as without the draft
    running = np.array([max(best.running_mean, 1.0)])
    again = float((steps.prompt_at(running) - found.prompt_at(running))[0]) if found.seats else 0.0
    net_s, pays = _net(baseline, best)
    return PrefixVerdict(
        request_rate=best.request_rate,
        concurrency=best.concurrency,
        gamma=best.gamma,
        hit_rate_without=baseline.prefix_hit_rate or 0.0,
        hit_rate=best.prefix_hit_rate or 0.0,
        block=own.law.block,
        dropped_tokens=own.law.block * own.law.dropped,
        decode_gain_s=(baseline.tpot_s.mean - best.tpot_s.mean) * replica.lengths.decoded,
        recomputed_s=again,
        net_s=net_s,
        pays=pays,
        changes=tuple(sorted(told, key=lambda c: (not c.pays, -np.inf if c.net_s is None else -c.net_s))),
    )


def _worth(row: TrafficRow) -> tuple[bool, float]:
    """Less is better: when requests end, and where the server is saturated how few it serves."""
    over = row.e2e_s is None
    return over, -row.requests_per_s if row.e2e_s is None else row.e2e_s.mean


def _net(baseline: TrafficRow, row: TrafficRow) -> tuple[float | None, bool]:
    """Seconds by which a request ends sooner than in the baseline, and whether the draft pays."""
    if baseline.e2e_s is None or row.e2e_s is None:
        return None, _worth(row) < _worth(baseline)
    net = baseline.e2e_s.mean - row.e2e_s.mean
    return net, net > 0


def prefix_warnings(scenario: Scenario) -> tuple[str, ...]:
    """What the cost of a draft to the prefix cache leaves out."""
    told = []
    if scenario.draft.reads_cache and not scenario.draft.views_target_cache:
        told.append(
            "a prefix hit may come without the draft's own cache, and then accepts less (sglang#31600)"
        )
    engine = engine_of(scenario.machine.calibration)
    if scenario.target.linear_attention is not None and not prefix_blocks(scenario).raised:
        told.append(
            f"how {engine} keeps recurrent states in its prefix cache is not known: give --prefix-block"
        )
    return tuple(told)
