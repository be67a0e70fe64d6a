"""Finds the smallest number of GPUs that serves a load, and the best servers for a changed question."""

import math
from collections.abc import Callable, Iterable, Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, find_candidates
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_order import order
from perfmodel.answers.advice.load_search import may_suffice, may_take
from perfmodel.answers.advice.nearest import reaches_of, served_by
from perfmodel.answers.advice.reach import MORE, Reach, load_of
from perfmodel.answers.advice.replayed_servers import fewest_of
from perfmodel.answers.advice.searched_layouts import over_nodes, searched_layouts
from perfmodel.answers.advice.served import Served, confirmed, estimated
from perfmodel.answers.question import Named
from perfmodel.errors import InputError

TRIED = 3
"""Number of candidates for which the number of servers is confirmed, beginning with those that need the
fewest GPUs.
"""
ROUNDING = 1e-9
"""Share of a server that rounding errors may add."""


def all_reaches(
    question: AdviseQuery, known: Sequence[Reach] = (), searched: Sequence[Layout] = ()
) -> list[Reach]:
    """The largest load (the *reach*) of every server that the question searches. If no server on one node can
    serve any load, servers on several nodes are searched.

    - known: the reaches of the layouts `searched`, which are not computed again.
    """
    named = Named.of(question)
    shapes = {_shape(layout) for layout in searched}
    layouts = searched_layouts(question, named.target, named.gpu)
    found = [*known, *reaches_on(question, [each for each in layouts if _shape(each) not in shapes])]
    return found or reaches_on(question, over_nodes(question))


def reaches_on(question: AdviseQuery, layouts: list[Layout]) -> list[Reach]:
    """The reaches of servers in these layouts; none if the model runs in none of them."""
    if not layouts:
        return []
    try:
        alone, drafted = reaches_of(question, find_candidates(question, layouts))
    except InputError:
        return []
    return alone + drafted


def best_on(
    question: AdviseQuery,
    layouts: list[Layout],
    time: Callable[[Served], float] | None = None,
    most_s: float = math.inf,
) -> Served | None:
    """The best servers of some layouts by `order`, with or without a draft. The result is None if no servers
    can serve the load within the limits.

    - time: a function that replaces `order`. The servers with its smallest value are best.
    - most_s: the longest time of a request that helps the caller. Servers with certainly longer times are not
      replayed. If the result has a longer time, this time is only a lower bound.
    """
    try:
        found = find_candidates(question, layouts)
    except InputError:
        return None
    drafted = found.runnable(question)
    estimates = [
        served
        for candidates, drafts in ((found.baselines, False), (drafted, True))
        for candidate in candidates
        if (served := _estimated(question, candidate, drafts)) is not None
        and may_suffice(served)
        and may_take(served, most_s)
    ]

    def worth(served: Served) -> float | tuple[float, float]:
        return order(served, question) if time is None else time(served)

    by_worth = sorted(estimates, key=worth)
    confirmed_ones = (confirmed(question, served, most_s) for served in by_worth[:TRIED])
    return next((served for served in confirmed_ones if served is not None), None)


def _estimated(question: AdviseQuery, candidate: Candidate, drafts: bool) -> Served | None:
    """The prediction for the servers of a candidate with the closed form. The result is None if `traffic`
    refuses the candidate, or if the best length of its draft is 0.
    """
    try:
        return estimated(question, candidate, drafts)
    except InputError:
        return None


def _shape(layout: Layout) -> tuple[int, int, int, int]:
    """The number of devices and the parallel degrees of one server."""
    return layout.server_gpus, layout.dp, layout.ep, layout.in_turn


def fewest_gpus(question: AdviseQuery, found: Iterable[Reach], most: float = math.inf) -> Served | None:
    """The servers with the fewest GPUs that serve the load, for a question that does not state the number of
    GPUs. The result is None if more than `most` GPUs are needed.
    """
    best: Served | None = None
    for reach in sorted(found, key=lambda each: (_gpus(question, each), -each.largest.load))[:TRIED]:
        gpus = _gpus(question, reach)
        if gpus > most or (best is not None and gpus > best.candidate.layout.gpus):
            break
        served = _with_fewest(question, reach)
        if served is None or served.candidate.layout.gpus > most:
            continue
        if best is None or order(served, question) < order(best, question):
            best = served
    return best


def _gpus(question: AdviseQuery, reach: Reach) -> int:
    """The number of GPUs that the load needs at least."""
    return reach.candidate.layout.times(_servers(question, reach)).gpus


def _servers(question: AdviseQuery, reach: Reach) -> int:
    """The number of servers that the load needs at least. It is the number of the closed form, or a smaller
    one if the closed form may be inaccurate.
    """
    most = reach.largest.load * (MORE if reach.doubted else 1.0)
    return math.ceil(load_of(question) / most * (1.0 - ROUNDING))


def _with_fewest(question: AdviseQuery, reach: Reach) -> Served | None:
    """The smallest number of servers of a reach that serves the load without a queue. The result is None if
    no number near that of the closed form is sufficient.
    """
    enough = fewest_of(question, reach, _servers(question, reach))
    return None if enough is None else served_by(question, reach, enough)
