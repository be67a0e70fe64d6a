"""Names the servers for a stated batch in all, because the batch of a question is that of each server."""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.alternatives import Alternative, per_gpu, point_text
from perfmodel.answers.advice.decision import quick_choice
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError


def for_batch_in_all(search: Search, chosen: PricedPoint) -> Alternative | None:
    """The best servers whose batches add up to the stated batch. The result is None if the choice is one
    server, if the question states no batch or several, or if the objective is latency.
    """
    query, servers = search.query, chosen.layout.replicas
    if servers == 1 or query.batch is None or not query.states_batch or query.objective == "latency":
        return None
    (batch,) = query.batch
    best = max(_choices(search, batch), key=lambda point: point.value, default=None)
    each = f"Batch {batch} is that of each server, and {servers * batch} sequences run in all"
    if best is None:
        return Alternative(each, 1, None)
    pace = f"{per_gpu(best):,.0f} tokens/s/GPU, {seconds(best.tpot_s)} per token"
    asked = replace(query, batch=(best.batch,))
    return Alternative.of(f"{each}; for {batch} in all: {point_text(best)}: {pace}", asked, best)


def _choices(search: Search, batch: int) -> Iterator[PricedPoint]:
    """The choice among the layouts with each number of servers that divides the batch."""
    layouts = [candidate.layout for candidate in search.candidates.baselines]
    for servers in sorted({layout.replicas for layout in layouts}):
        if batch % servers:
            continue
        equal = [layout for layout in layouts if layout.replicas == servers]
        try:
            point = quick_choice(Search.of(replace(search.query, batch=(batch // servers,)), equal))
        except InputError:
            continue
        if point is not None:
            yield point
