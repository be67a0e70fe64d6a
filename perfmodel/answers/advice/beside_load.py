"""Alternatives that an operator may prefer to the choice of `advise` under a load, each with its command
line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, draft_text
from perfmodel.answers.advice.beside_choice import PLAIN_GOOD, with_shorter_draft
from perfmodel.answers.advice.layouts import MOST_IN_SERVER, Layout
from perfmodel.answers.advice.load_decision import LoadDecision
from perfmodel.answers.advice.load_reasons import enough_text, served_with_draft
from perfmodel.answers.advice.other_servers import all_reaches, best_on, fewest_gpus
from perfmodel.answers.advice.pools.fewest import fewer_in_two_pools
from perfmodel.answers.advice.served import Served, confirmed
from perfmodel.answers.advice.shorter_draft import shorter_draft
from perfmodel.answers.advice.smaller_formats import with_smaller_cache
from perfmodel.answers.advice.smaller_servers import MUCH_SOONER, NOTICED, SmallerServers
from perfmodel.answers.advice.started import started
from perfmodel.answers.advice.switched_servers import with_larger_share
from perfmodel.answers.text import seconds

NEARLY_GOOD = 1.1
"""A simpler layout is named if a request takes at most this many times as long as with the choice."""
SOONER = 2.0
"""A layout with a shorter TTFT is named if the TTFT is shorter by at least this factor."""
SOONER_GOOD = 1.3
"""A layout with a shorter TTFT is named if a request takes at most this many times as long as with the
choice.
"""
LONG_WAIT_S = 1.0
"""A layout with a shorter TTFT is only named if the TTFT of the choice is at least this long."""


def beside_load(
    question: AdviseQuery, decision: LoadDecision, chosen: Served, smaller: Sequence[SmallerServers]
) -> Iterator[Alternative]:
    """Alternatives with fewer GPUs, smaller number formats, a larger share of the memory, a simpler layout, a
    shorter TTFT or a shorter draft.

    - smaller: servers with smaller formats of weights or cache that are better than the choice.
    """
    named = (
        _on_fewer_gpus(question, chosen),
        *(each.alternative for each in smaller),
        with_larger_share(question, chosen),
        _simpler(question, decision, chosen),
        _sooner(question, decision, chosen),
        _shorter(question, decision.option or chosen),
    )
    yield from (alternative for alternative in named if alternative is not None)
    gpus = chosen.candidate.layout.gpus
    if question.gpus is None and gpus > MOST_IN_SERVER:
        yield from fewer_in_two_pools(question, gpus)


def _on_fewer_gpus(question: AdviseQuery, chosen: Served) -> Alternative | None:
    """The servers without a draft on the fewest GPUs that serve the rate. The result is None if no smaller
    number of GPUs is sufficient, or if the objective is latency, because every GPU then helps.
    """
    if question.request_rate is None or question.gpus is None or question.objective == "latency":
        return None
    counted = replace(question, gpus=None)
    alone = [reach for reach in all_reaches(counted) if not reach.drafts]
    fewest = fewest_gpus(counted, alone, most=question.gpus - 1)
    if fewest is None:
        return None
    return started(enough_text(fewest), counted, fewest)


def smaller_cache(question: AdviseQuery, chosen: Served) -> SmallerServers | None:
    """Servers with an FP8 cache on the same number of GPUs, in the layout of the choice or with half of its
    attention groups. The result is None if FP8 would change little, or if the question names a format. More
    requests of clients that wait for a seat are reason enough to name a smaller gain.
    """
    layout = chosen.candidate.layout
    found_caches = [changed for _, changed in with_smaller_cache("", question)]
    if not found_caches:
        return None
    smaller = replace(found_caches[0], gpus=layout.gpus)
    most = max(chosen.asked.max_concurrency or (0,))
    most_s = (NOTICED if chosen.seats < most else MUCH_SOONER) * chosen.request_s
    best = best_on(smaller, [layout, *_with_half_the_groups(question, layout)], most_s=most_s)
    if best is None:
        return None
    more_seats = chosen.seats < most and best.seats > chosen.seats
    if best.request_s > (NOTICED if more_seats else MUCH_SOONER) * chosen.request_s:
        return None
    times = f"{seconds(best.request_s)} instead of {seconds(chosen.request_s)}"
    flags = "--kv-dtype fp8"
    text = f"With {flags} a request takes {times}: {served_with_draft(best)}"
    if more_seats and best.candidate.layout == layout:
        text = (
            f"A server runs {chosen.seats} of {most} requests at once, with {flags} {best.seats}, and a "
            f"request then takes {times}"
        )
    return SmallerServers(flags, smaller, started(text, smaller, best), best, f"a request takes {times}")


def _with_half_the_groups(question: AdviseQuery, layout: Layout) -> list[Layout]:
    """The layout with half of its attention groups, unless the question states their number."""
    if question.dp or layout.dp == 1:
        return []
    return [replace(layout, dp=layout.dp // 2)]


def _simpler(question: AdviseQuery, decision: LoadDecision, chosen: Served) -> Alternative | None:
    """A simpler layout of the same number of GPUs, on which a request takes little longer and its first token
    does not come much later. It is the fastest one with tensor parallelism alone. If `traffic` does not
    confirm it, it is the simplest one that is nearly as fast as the choice; None if there is none.
    """
    if question.objective == "latency":
        return None
    layout = chosen.candidate.layout
    simpler = [s for s in _near(decision, chosen, PLAIN_GOOD) if s.candidate.layout.is_simpler_than(layout)]
    plain = [s for s in simpler if s.candidate.layout.is_plainer_than(layout)]
    near = [s for s in simpler if s.request_s <= NEARLY_GOOD * chosen.request_s]
    latest_s = max(SOONER * chosen.ttft_s, LONG_WAIT_S)
    near, plain = ([s for s in found if s.ttft_s <= latest_s] for found in (near, plain))
    tried = [(min(plain, key=lambda s: s.request_s), PLAIN_GOOD)] if plain else []
    if near:
        tried.append((min(near, key=lambda s: (s.candidate.layout.simplicity, s.request_s)), NEARLY_GOOD))
    for estimate, most in tried:
        served = confirmed(question, estimate, most * chosen.request_s)
        if served is None or served.request_s > most * chosen.request_s or served.ttft_s > latest_s:
            continue
        text = f"{_in_short(served)} is simpler to run and takes {_longer(served, chosen)} time per request"
        return started(text, question, served)
    return None


def _sooner(question: AdviseQuery, decision: LoadDecision, chosen: Served) -> Alternative | None:
    """The layout of the same number of GPUs whose TTFT is shorter by the factor `SOONER`, and whose requests
    take at most `SOONER_GOOD` times as long; None if there is none. Such a layout helps if requests wait long
    for a seat.
    """
    wait_s = chosen.ttft_s
    sooner = [s for s in _near(decision, chosen, SOONER_GOOD) if s.ttft_s < wait_s / SOONER]
    if wait_s < LONG_WAIT_S or not sooner:
        return None
    most_s = SOONER_GOOD * chosen.request_s
    served = confirmed(question, min(sooner, key=lambda s: s.request_s), most_s)
    if served is None or served.ttft_s > wait_s / SOONER or served.request_s > most_s:
        return None
    wait = f"{seconds(served.ttft_s)} instead of {seconds(wait_s)}"
    longer = _longer(served, chosen)
    text = f"{_in_short(served)}: first token after {wait}, for {longer} time per request"
    return started(text, question, served)


def _shorter(question: AdviseQuery, drafting: Served) -> Alternative | None:
    """The same servers with a shorter draft that is nearly as fast; None if there is no such draft."""
    shorter = shorter_draft(question, drafting.point)
    return None if shorter is None else with_shorter_draft(shorter)


def _near(decision: LoadDecision, chosen: Served, most: float) -> list[Served]:
    """The other servers on the same number of GPUs with which a request takes at most `most` times as long as
    with the choice.
    """
    gpus = chosen.candidate.layout.gpus
    as_many = [s for s in decision.others if s.candidate.layout.gpus == gpus]
    return [s for s in as_many if s.request_s <= most * chosen.request_s]


def _longer(served: Served, chosen: Served) -> str:
    """How much longer a request takes than with the choice, such as ``3% more`` or ``2% less``."""
    more = served.request_s / chosen.request_s - 1.0
    return f"{abs(more):.0%} {'more' if more >= 0.0 else 'less'}"


def _in_short(served: Served) -> str:
    """The layout and the draft in words."""
    return f"{served.candidate.layout.label()} with {draft_text(served.point)}"
