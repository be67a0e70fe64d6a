"""What FP8 weights would change where unquantised ones leave little room for sequences."""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.prices import price, room
from perfmodel.answers.advice.ranking import PricedPoint, best_of
from perfmodel.answers.advice.servers.base import UNQUANTISED
from perfmodel.errors import InputError
from perfmodel.specs import load_model

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


def may_be_smaller(query: AdviseQuery) -> bool:
    """Whether the engine may make FP8 weights of a checkpoint of 16 bits, and the question leaves it open."""
    engine = query.served_by
    if query.weights is not None or engine is None or engine.conversion is not None:
        return False
    return load_model(query.model).weights in UNQUANTISED


def smaller_weights(
    query: AdviseQuery, baseline: PricedPoint | None
) -> tuple[SmallerWeights, PricedPoint] | None:
    """The gain of FP8 weights on the layout of the best baseline, and their point; None if it is small,
    if the checkpoint has not 16 bits, if the question names a format, or if memory does not limit the batch.
    """
    if baseline is None or query.objective != "throughput" or not may_be_smaller(query):
        return None
    scenario = baseline.candidate.scenario
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
    return (SmallerWeights(SMALLER, point.batch, gain), point) if gain >= MUCH_MORE else None
