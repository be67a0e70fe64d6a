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
from perfmodel.answers.advice.servers_instead import Instead, ServerOfWay
from perfmodel.answers.advice.smaller_formats import in_smaller_weights
from perfmodel.answers.advice.ways import Way
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError

MUCH_BETTER = 2.0
"""A change that loses more precision is tried first if its server is at least this many times as good. The
value is an assumption.
"""


def instead(search: Search, ways: Iterable[Way]) -> Instead:
    """The servers to start if nothing is feasible. The first server is the fastest one on the given devices,
    if the question has a bound on TPOT. One server for each change follows.
    """
    query = search.query
    changed = with_changes(query, ways)
    if query.max_tpot_ms is not None and (nearest := fastest(query)) is not None:
        return replace(changed, alternatives=(nearest, *changed.alternatives))
    return changed


def fastest(query: AdviseQuery) -> Alternative | None:
    """The server on the given devices with the lowest TPOT. The bound on TPOT is ignored. The result is None
    if nothing fits in memory.
    """
    free = replace(query, max_tpot_ms=None, objective="latency")
    point = _choice(free)
    return None if point is None else Alternative.of(f"The nearest: {_with_pace(point)}", free, point)


def with_changes(query: AdviseQuery, ways: Iterable[Way]) -> Instead:
    """For each change, the server that `advise` would then choose. A change for which the reader must add a
    value is left out. If none of these servers has a draft because acceptances are unknown, the last
    alternative says so.
    """
    found = [(way, changed, point) for way in ways for changed, point in _changed(query, way)]
    on_these = [(way, point) for way, _, point in found if way.on_given_devices]
    for way, changed, point in _in_four_bits(query, [point for _, point in on_these]):
        found.append((way, changed, point))
        on_these.append((way, point))
    of_ways = [ServerOfWay(way, _alternative(way, changed, point)) for way, changed, point in found]
    alternatives = [each.server for each in of_ways]
    if found and not any(point.gamma for *_, point in found) and without_acceptance(query):
        known = f"No draft of {query.model} has a known acceptance and gains here"
        text = f"{known}; with any of these changes, advise names one to measure"
        alternatives.append(Alternative(text, 1, None))
    return Instead(tuple(alternatives), tuple(of_ways), tuple(_in_order(query, on_these)))


def _changed(query: AdviseQuery, way: Way) -> Iterator[tuple[AdviseQuery, PricedPoint]]:
    """The question after a change, and its choice. Yields nothing if nothing is feasible."""
    if way.changes is None:
        return
    changed = replace(query, **as_asked(way.changes))
    point = _choice(changed)
    if point is not None:
        yield changed, point


def _alternative(way: Way, changed: AdviseQuery, point: PricedPoint) -> Alternative:
    """The alternative of a change with its choice."""
    return Alternative.of(f"{way.opening}: {_with_pace(point)}", changed, point, seats_of(changed, point))


def _in_order(query: AdviseQuery, found: Sequence[tuple[Way, PricedPoint]]) -> list[Way]:
    """The changes in the order in which to try them. The first one loses the least precision, unless the
    server of another one is much better. The others keep their order.
    """
    if not found:
        return []
    first, best = found[0]
    for way, point in found[1:]:
        if point.times(best, query) >= MUCH_BETTER:
            first, best = way, point
    return [first, *(way for way, _ in found if way is not first)]


def _in_four_bits(
    query: AdviseQuery, others: Sequence[PricedPoint]
) -> Iterator[tuple[Way, AdviseQuery, PricedPoint]]:
    """The change to a known 4-bit checkpoint, if its server is much better than the other servers on the
    given devices.
    """
    if not others:
        return
    for flags, changed in in_smaller_weights(query):
        point = None if changed.model == query.model else _choice(changed)
        if point is not None and all(point.times(other, query) >= LESS_PRECISE for other in others):
            yield Way(f"with {flags}", {"model": changed.model, "weights": changed.weights}), changed, point
            return


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
