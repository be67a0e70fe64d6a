"""Alternatives that a reader may prefer to the choice of `advise` without a load, each with its command
line.
"""

from collections.abc import Iterator, Sequence

from perfmodel.answers.advice.advise_query import READING_S, AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, per_gpu, point_text
from perfmodel.answers.advice.decision import Decision
from perfmodel.answers.advice.on_off import seats_of
from perfmodel.answers.advice.ranking import PricedPoint, best_of_each_layout
from perfmodel.answers.advice.shorter_draft import ShorterDraft
from perfmodel.answers.text import seconds

NEARLY = 1.15
"""Smaller servers are named if their time per token is at most this many times the shortest time."""
NEARLY_GOOD = 1.1
"""A simpler layout is named if it is worse than the choice by at most this factor."""
PLAIN_GOOD = 1.25
"""A layout with tensor parallelism alone is named beside a choice with other groups if it is worse by at most
this factor. It is what most servers run.
"""
LEAST_BETTER = 0.01
"""A layout is only named as better if its gain over the choice is at least this share."""


def layouts_beside(query: AdviseQuery, decision: Decision) -> Iterator[Alternative]:
    """Layouts that are slightly better than the choice, simpler to run, or made of smaller servers."""
    layouts = best_of_each_layout(decision.weighed)
    for named in (_harder, _simpler, _smaller_servers):
        alternative = named(query, decision.chosen, layouts)
        if alternative is not None:
            yield alternative


def _harder(query: AdviseQuery, chosen: PricedPoint, layouts: Sequence[PricedPoint]) -> Alternative | None:
    """The layout that is a little better than the choice but harder to run; None if there is none."""
    first = layouts[0]
    gain = first.times(chosen, query) - 1.0
    if first.layout == chosen.layout or gain < LEAST_BETTER:
        return None
    text = f"{point_text(first)} is {gain:.1%} better, which is too little to choose the less simple layout"
    return Alternative.of(text, query, first, seats_of(query, first))


def _simpler(query: AdviseQuery, chosen: PricedPoint, layouts: Sequence[PricedPoint]) -> Alternative | None:
    """A simpler layout of the same number of GPUs: the best one with tensor parallelism alone, or the
    simplest one that is nearly as good as the choice; None if there is none. If the question states one
    batch, the layout has as many servers as the choice, because a batch is that of one server.
    """
    if query.objective == "latency":
        return None
    as_many = [p for p in layouts if p.layout.gpus == chosen.layout.gpus]
    if query.states_batch:
        as_many = [p for p in as_many if p.layout.replicas == chosen.layout.replicas]
    simpler = [p for p in as_many if p.layout.is_simpler_than(chosen.layout)]
    near = [p for p in simpler if chosen.times(p, query) <= NEARLY_GOOD]
    plain = [p for p in simpler if p.layout.is_plainer_than(chosen.layout)]
    plain = [p for p in plain if chosen.times(p, query) <= PLAIN_GOOD]
    if plain:
        point = min(plain, key=lambda p: chosen.times(p, query))
    elif near:
        point = min(near, key=lambda p: p.layout.simplicity)
    else:
        return None
    fewer = 1.0 - 1.0 / chosen.times(point, query)
    text = f"{point_text(point)} is simpler to run and gives {fewer:.0%} fewer tokens per second"
    return Alternative.of(text, query, point)


def _smaller_servers(
    query: AdviseQuery, chosen: PricedPoint, layouts: Sequence[PricedPoint]
) -> Alternative | None:
    """The layout with the smallest servers that is nearly as fast for one stream; None if there is none."""
    if query.objective != "latency":
        return None
    size = chosen.layout.server_gpus
    smaller = [p for p in layouts if p.layout.server_gpus < size and p.tpot_s <= NEARLY * chosen.tpot_s]
    if not smaller:
        return None
    point = min(smaller, key=lambda p: (p.layout.server_gpus, p.tpot_s))
    slower = point.tpot_s / chosen.tpot_s - 1.0
    more = per_gpu(point) / per_gpu(chosen)
    text = f"{point.layout.label()} is {slower:.0%} slower and gives {more:.1f} times the tokens per GPU"
    return Alternative.of(text, query, point, seats_of(query, point))


def with_no_bound(query: AdviseQuery, point: PricedPoint) -> Alternative:
    """The alternative of the best point without the bound `READING_S` on the time per token. This alternative
    is for text that nobody reads while it appears.
    """
    bound = f"Every sequence gets at least {1 / READING_S:g} tokens/s, about reading speed"
    free = f"{point_text(point)}: {per_gpu(point):.0f} tokens/s/GPU at {seconds(point.tpot_s)}"
    return Alternative.of(f"{bound}; without this limit (--max-tpot-ms): {free} per token", query, point)


def with_shorter_draft(shorter: ShorterDraft) -> Alternative:
    """The alternative of the same server with a shorter draft that is nearly as fast. In the command line,
    only the draft length changes.
    """
    share = "all" if shorter.share >= 1.0 else f"{shorter.share:.0%}"
    kept = f"gamma {shorter.gamma} keeps {share} of the speedup"
    return Alternative(f"A shorter draft loses less if fewer tokens are accepted: {kept}", 1, None)
