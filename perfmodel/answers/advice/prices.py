"""Prices `advise`'s candidates, each over all batches and draft lengths at once, and finds the best point."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.answers.advice.candidates import AdviseQuery, Candidate
from perfmodel.errors import refuse
from perfmodel.operations import Array, Ints, Mask
from perfmodel.speculation import Scenario, Workload, capacity, predict

MAX_PRICES = 2_000_000
"""Largest product of batches, drafts and draft lengths: about a gigabyte and ten seconds."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A point that no other beats in both throughput and time per token."""

    tpot_s: float
    throughput_tokens_per_s: float
    batch: int
    gamma: int
    tp: int
    draft: str | None
    draft_kv: str | None


@dataclass(frozen=True, slots=True)
class Fronts:
    """Throughput against time per token, for the baseline and for speculation. Only points that fit in
    memory.
    """

    baseline: tuple[FrontPoint, ...]
    speculating: tuple[FrontPoint, ...]


@dataclass(frozen=True, slots=True)
class Priced:
    """One candidate over ``[batch, gamma]``.

    `drafted` has the draft lengths and `gained` the tokens per iteration of each. `fits`: memory suffices.
    `allowed`: the bound on time per token holds too.
    """

    candidate: Candidate
    drafted: Ints
    gained: Array
    tpot_s: Array
    fits: Mask
    allowed: Mask


def price(
    baseline: list[Candidate], candidates: list[Candidate], query: AdviseQuery
) -> tuple[list[Priced], ...]:
    """Prices the baselines and the candidates. All drafts of one degree share the target passes, which are
    computed once.

    Raises InputError for more than `MAX_PRICES` prices.
    """
    if query.power_limit is not None:
        return [_limited(c, query, 0) for c in baseline], [
            _limited(c, query, c.scenario.longest(query.max_gamma)) for c in candidates
        ]
    columns = len(baseline) + sum(c.scenario.longest(query.max_gamma) for c in candidates)
    if query.batches.size * columns > MAX_PRICES:
        raise refuse(
            "--batch",
            None,
            f"at most {MAX_PRICES // columns} values with these drafts, such as 1..4096x2",
            query.batches.size,
        )
    deepest = max((c.scenario.longest(query.max_gamma) for c in candidates), default=0)
    verify = {c.tp: _verify(c.scenario, query, deepest) for c in baseline}
    alone = [_priced(c, np.zeros(1, int), np.ones(1), verify[c.tp][:, :1], query) for c in baseline]
    return alone, [_chains(c, query, verify[c.tp]) for c in candidates]


def fits(scenario: Scenario, batch: Any, drafted: Any, query: AdviseQuery) -> Mask:
    """Whether memory suffices, broadcast over batches and drafted tokens."""
    context = np.asarray(float(query.context))
    fraction = query.memory_fraction
    return capacity.memory_of(scenario, batch, context, drafted, fraction).fits


def _verify(scenario: Scenario, query: AdviseQuery, deepest: int) -> Array:
    batches = query.batches
    queries = np.arange(1.0, deepest + 2)
    times = scenario.target_pass_s(batches[:, None], float(query.context), queries)
    return np.broadcast_to(times, (batches.size, queries.size))


def _limited(candidate: Candidate, query: AdviseQuery, longest: int) -> Priced:
    """A candidate under a power limit, which slows an iteration as a whole. longest: 0 for a baseline."""
    gammas = np.arange(min(longest, 1), longest + 1)
    p = predict(
        candidate.scenario, Workload.of(query.batches[:, None], float(query.context), gammas), longest
    )
    return _priced(candidate, gammas, p.tokens_per_iteration[0], p.tpot_s, query)


def _chains(candidate: Candidate, query: AdviseQuery, verify: Array) -> Priced:
    s = candidate.scenario
    gammas = np.arange(1, candidate.scenario.longest(query.max_gamma) + 1)
    b = query.batches[:, None]
    context = np.asarray(float(query.context))
    iteration = gammas * s.draft_token_s(b, context, gammas) + verify[:, gammas] + s.overhead_s(b, context)
    gained = np.cumsum(s.acceptance.survival(int(gammas[-1])))[1:]
    return _priced(candidate, gammas, gained, iteration / gained, query)


def _priced(candidate: Candidate, drafted: Any, gained: Array, tpot_s: Array, query: AdviseQuery) -> Priced:
    room = fits(candidate.scenario, query.batches[:, None], np.asarray(drafted, float), query)
    room = np.broadcast_to(room, tpot_s.shape)
    bound = query.max_tpot_s
    return Priced(
        candidate, drafted, gained, tpot_s, room, room if bound is None else room & (tpot_s <= bound)
    )


@dataclass(frozen=True, slots=True)
class PricedPoint:
    """A point of a candidate, and its value by the objective (larger is better)."""

    candidate: Candidate
    batch: int
    gamma: int
    gained: float
    tpot_s: float
    value: float

    def times(self, other: "PricedPoint", query: AdviseQuery) -> float:
        """The factor by which this point is better than another."""
        larger, smaller = (self, other) if query.objective == "throughput" else (other, self)
        return larger.value / smaller.value


def best(priced: Priced, query: AdviseQuery) -> PricedPoint | None:
    """The best allowed point of one candidate; on a tie the smallest batch and draft. None if no point is
    allowed.
    """
    if not priced.allowed.any():
        return None
    worth = _value(query, query.batches[:, None], priced.tpot_s, priced.candidate.tp)
    value = np.where(priced.allowed, worth, -np.inf)
    i, j = divmod(int(np.argmax(value)), value.shape[1])
    return PricedPoint(
        candidate=priced.candidate,
        batch=int(query.batches[i]),
        gamma=int(priced.drafted[j]),
        gained=float(priced.gained[j]),
        tpot_s=float(priced.tpot_s[i, j]),
        value=float(value[i, j]),
    )


def _value(query: AdviseQuery, batch: Array, tpot_s: Array, tp: int) -> Array:
    """The quantity that the objective maximises: tokens/s of the group, the negative time per token, or the
    negative price.
    """
    if query.objective == "latency":
        return -tpot_s
    if query.objective == "throughput":
        return batch / tpot_s
    assert query.price is not None
    return -(query.price * tp / 3600.0 * 1e6) * tpot_s / batch


def front(priced: list[Priced], batches: Array) -> tuple[FrontPoint, ...]:
    """The Pareto front: points of rising throughput and rising time per token that no other point beats in
    both. Only points that fit in memory.
    """
    if not any(x.fits.any() for x in priced):
        return ()
    speed = np.concatenate([np.where(x.fits, x.tpot_s, np.inf).ravel() for x in priced])
    shapes = [x.tpot_s.shape for x in priced]
    rate = np.concatenate([np.broadcast_to(batches[:, None], shape).ravel() for shape in shapes]) / speed
    order = np.argsort(speed, kind="stable")
    top = np.maximum.accumulate(rate[order])
    unbeaten = order[np.concatenate(([True], top[1:] > top[:-1] * (1 + 1e-9))) & np.isfinite(speed[order])]
    starts = np.cumsum([0, *(x.tpot_s.size for x in priced)])
    points = []
    for at in unbeaten:
        which = int(np.searchsorted(starts, at, "right")) - 1
        i, j = divmod(int(at - starts[which]), shapes[which][1])
        winner = priced[which]
        gamma = int(winner.drafted[j])
        draft = winner.candidate.scenario.draft
        points.append(
            FrontPoint(
                tpot_s=float(speed[at]),
                throughput_tokens_per_s=float(rate[at]),
                batch=int(batches[i]),
                gamma=gamma,
                tp=winner.candidate.tp,
                draft=draft.name if gamma else None,
                draft_kv=draft.kv.label() if gamma else None,
            )
        )
    return tuple(points)
