"""Names servers to start if no configuration of a question is feasible: the fastest server, and one server
for each change of the question that helps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from perfmodel.answers.advice.accepted_drafts import without_acceptance
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, point_text
from perfmodel.answers.advice.better_changes import LESS_PRECISE, as_asked
from perfmodel.answers.advice.decision import quick_choice
from perfmodel.answers.advice.on_off import seats_of
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.advice.smaller_formats import in_smaller_weights
from perfmodel.answers.advice.ways import Way
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError


def instead(search: Search, ways: Iterable[Way]) -> Iterator[Alternative]:
    """The servers to start if nothing is feasible. The first server is the fastest one on the given devices,
    if the question has a bound on TPOT. One server for each change follows.
    """
    query = search.query
    if query.max_tpot_ms is not None and (nearest := fastest(query)) is not None:
        yield nearest
    yield from with_changes(query, ways)


def fastest(query: AdviseQuery) -> Alternative | None:
    """The server on the given devices with the lowest TPOT. The bound on TPOT is ignored. The result is None
    if nothing fits in memory.
    """
    free = replace(query, max_tpot_ms=None, objective="latency")
    point = _choice(free)
    return None if point is None else Alternative.of(f"The nearest: {_with_pace(point)}", free, point)


def with_changes(query: AdviseQuery, ways: Iterable[Way]) -> Iterator[Alternative]:
    """For each change, the server that `advise` would then choose. A change for which the reader must add a
    value is left out. If none of these servers has a draft because acceptances are unknown, the last
    alternative says so.
    """
    points = []
    on_these = []
    for way in ways:
        if way.changes is None:
            continue
        changed = replace(query, **as_asked(way.changes))
        point = _choice(changed)
        if point is not None:
            text = f"{way.opening}: {_with_pace(point)}"
            yield Alternative.of(text, changed, point, seats_of(changed, point))
            points.append(point)
            if way.on_given_devices:
                on_these.append(point)
    four_bits = _in_four_bits(query, on_these)
    if four_bits is not None:
        points.append(four_bits[0])
        yield four_bits[1]
    if points and not any(point.gamma for point in points) and without_acceptance(query):
        known = f"No draft of {query.model} has a known acceptance and gains here"
        yield Alternative(f"{known}; with any of these changes, advise names one to measure", 1, None)


def _in_four_bits(
    query: AdviseQuery, others: Sequence[PricedPoint]
) -> tuple[PricedPoint, Alternative] | None:
    """The server with a known 4-bit checkpoint, if it is much better than the other servers on the given
    devices.
    """
    if not others:
        return None
    for flags, changed in in_smaller_weights(query):
        point = None if changed.model == query.model else _choice(changed)
        if point is not None and all(point.times(other, query) >= LESS_PRECISE for other in others):
            text = f"With {flags}: {_with_pace(point)}"
            return point, Alternative.of(text, changed, point, seats_of(changed, point))
    return None


def _choice(query: AdviseQuery) -> PricedPoint | None:
    """The choice of a question; None if nothing is feasible."""
    try:
        return quick_choice(Search.of(query))
    except InputError:
        return None


def _with_pace(point: PricedPoint) -> str:
    """A point with its time per token and its rate."""
    rate = point.layout.replicas * point.batch / point.tpot_s
    return f"{point_text(point)}: {seconds(point.tpot_s)} per token, {rate:,.0f} tokens/s"
