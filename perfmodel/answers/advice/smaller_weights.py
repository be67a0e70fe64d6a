"""What FP8 weights would change where unquantised ones leave little room for sequences."""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.prices import price, room
from perfmodel.answers.advice.ranking import PricedPoint, best_of
from perfmodel.answers.advice.served_target import UNQUANTISED
from perfmodel.errors import InputError

SMALLER = "fp8"
"""The format that vLLM and SGLang make of unquantised weights when they load them."""
MUCH_MORE = 1.5
"""Factor of the tokens per second from which the format is named."""


@dataclass(frozen=True, slots=True)
class SmallerWeights:
    """The best batch of one server with smaller weights and without a draft. gain: its tokens per second over
    those of the best baseline.
    """

    weights: str
    batch: int
    gain: float


def smaller_weights(query: AdviseQuery, baseline: PricedPoint | None) -> SmallerWeights | None:
    """The gain of FP8 weights on the layout of the best baseline; None if it is small, if the checkpoint has
    not 16 bits, if the question names a format, or if memory does not limit the batch.
    """
    engine = query.served_by
    if baseline is None or query.objective != "throughput" or query.weights is not None:
        return None
    scenario = baseline.candidate.scenario
    if engine is None or engine.conversion is not None or scenario.target.weights not in UNQUANTISED:
        return None
    if bool(room(scenario, baseline.batch + 1.0, 0.0, query).fits):
        return None
    alone = replace(
        query, weights=SMALLER, draft=("ngram",), draft_kv=None, rate={}, tree_rate={}, acceptance=None
    )
    try:
        found = find_candidates(alone, [baseline.layout])
        priced, _ = price(found.baselines, [], alone)
    except InputError:
        return None
    point = best_of(priced, alone)
    if point is None:
        return None
    gain = point.times(baseline, query)
    return SmallerWeights(SMALLER, point.batch, gain) if gain >= MUCH_MORE else None
