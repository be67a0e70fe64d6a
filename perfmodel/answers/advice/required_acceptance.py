"""The break-even alpha of each draft without a measured acceptance."""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.candidates import AdviseQuery, find_candidates, without_acceptance
from perfmodel.answers.advice.prices import Priced, PricedPoint, price
from perfmodel.speculation import alpha_from_tokens_per_iteration

MOST_BATCHES = 256
"""Most batch sizes to try, without the baseline's. A longer list is thinned evenly."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """A draft at this gamma and batch beats the best baseline from the constant acceptance `smallest_alpha`
    on.
    """

    draft: str
    draft_kv: str
    draft_tp: int
    gamma: int
    batch: int
    smallest_alpha: float


def break_evens(query: AdviseQuery, baseline: PricedPoint) -> tuple[BreakEven, ...]:
    """A break-even for each draft without an acceptance, with the KV method that needs the least. The least
    alpha comes first.

    It includes only drafts that the engine runs, unless any may be chosen, on as many devices as the best
    baseline. A draft that does not pay at alpha 1 is left out.
    """
    rates = {f"{name}@{kv.label()}": "1" for name, kv in without_acceptance(query)}
    if not rates:
        return ()
    step = -(-query.batches.size // MOST_BATCHES)
    batches = tuple(np.union1d(query.batches[::step], [baseline.batch]))
    accepted = replace(
        query,
        rate=rates,
        draft=None,
        draft_kv=None,
        acceptance=None,
        batch=batches,
        tp=(baseline.candidate.tp,),
    )
    alone, candidates, _ = find_candidates(accepted)
    _, drafted = price(alone, [c for c in candidates if query.may_choose(c.runs)], accepted)
    least: dict[str, BreakEven] = {}
    reachable = [even for x in drafted if (even := _break_even(x, accepted, baseline)) is not None]
    for even in sorted(reachable, key=lambda even: even.smallest_alpha):
        least.setdefault(even.draft, even)
    return tuple(least.values())


def _break_even(priced: Priced, query: AdviseQuery, baseline: PricedPoint) -> BreakEven | None:
    """Break-even of a candidate that was priced at alpha 1. At each gamma the least alpha follows from the
    fewest tokens per iteration.
    """
    enough_s = np.full(query.batches.shape, baseline.tpot_s)
    if query.objective != "latency":
        enough_s *= query.batches / baseline.batch
    if query.max_tpot_s is not None:
        enough_s = np.minimum(enough_s, query.max_tpot_s)
    needed = np.where(priced.fits, priced.tpot_s * priced.gained / enough_s[:, None], np.inf)
    fewest = np.maximum(needed.min(axis=0), 1.0)
    reachable = fewest <= priced.drafted + 1.0
    if not reachable.any():
        return None
    gammas = priced.drafted[reachable]
    alphas = np.atleast_1d(alpha_from_tokens_per_iteration(fewest[reachable], gammas))
    at = int(np.argmin(alphas))
    draft, column = priced.candidate.scenario.draft, int(np.flatnonzero(reachable)[at])
    return BreakEven(
        draft=draft.name,
        draft_kv=draft.kv.label(),
        draft_tp=draft.tensor_parallel,
        gamma=int(gammas[at]),
        batch=int(query.batches[np.argmin(needed[:, column])]),
        smallest_alpha=float(alphas[at]),
    )
