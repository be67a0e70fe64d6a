"""Why no servers serve a load in `advise`, and what to start instead."""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_load import started
from perfmodel.answers.advice.infeasible import Infeasible, why_infeasible
from perfmodel.answers.advice.instead import fastest, with_changes
from perfmodel.answers.advice.load_reasons import enough_text, load_text, served_with_draft
from perfmodel.answers.advice.load_search import LoadSearch
from perfmodel.answers.advice.one_request import at_batch, without_load
from perfmodel.answers.advice.other_servers import fewest_gpus, in_fp8, with_fp8_weights
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.served import Served, estimated, replayed
from perfmodel.answers.advice.servers_needed import STEP, most_load
from perfmodel.answers.text import clients, request_rate, seconds

NEAREST = 3
"""Servers whose largest load is searched, those with the most requests within the limits."""
CONFIRMING = 3
"""Loads of which the largest that a replay confirms is told: that of the closed form, and smaller ones."""


def why_insufficient(search: LoadSearch) -> Infeasible:
    """Memory, or the limits."""
    question = search.question
    alone = _one_request(search)
    if not any(priced.fits.any() for priced in alone):
        return why_infeasible(question, alone, [], search.candidates.skips)
    if not search.served:
        lowest_s = min(float(priced.tpot_s[priced.fits].min()) for priced in alone if priced.fits.any())
        return Infeasible(
            f"no number of servers serves {load_text(question)}; the TPOT of one request alone without a "
            f"draft is {seconds(lowest_s)}"
        )
    share = ""
    if (best := _by_share(search)[0].row.slo_share) is not None:
        share = f" ({best:.0%} of the requests within the limits)"
    these = "1 GPU does not" if question.gpus == 1 else f"{question.gpus} GPUs do not"
    return Infeasible(f"{these} serve {load_text(question)}{share}")


def instead_of_insufficient(search: LoadSearch, insufficient: Infeasible) -> Iterator[Alternative]:
    """The nearest servers of the given devices, the fewest devices that suffice, and FP8 weights; where
    nothing fits, one server for each change that helps.
    """
    question = search.question
    if insufficient.ways:
        yield from with_changes(without_load(question), insufficient.ways)
        return
    if not search.served:
        if (alone := fastest(without_load(question))) is not None:
            yield alone
        return
    yield _nearest(search)
    counted = replace(question, gpus=None)
    if (fewest := fewest_gpus(counted, most=float("inf"), drafts=True)) is not None:
        yield started(enough_text(fewest), counted, fewest)
    if (smaller := in_fp8(question)) is None:
        return
    layouts = [candidate.layout for candidate in search.candidates.baselines]
    if (best := with_fp8_weights(smaller, layouts)) is not None:
        yield started(f"With --weights fp8 these suffice: {served_with_draft(best)}", smaller, best)


def _nearest(search: LoadSearch) -> Alternative:
    """The servers that serve the largest load within the limits, with this load; where they serve none, those
    with the most requests within the limits.
    """
    question = search.question
    nearest = _by_share(search)[:NEAREST]
    loads = [most_load(question, s.candidate, s.row.gamma != 0) for s in nearest]
    most = max(loads)
    best = nearest[loads.index(most)]
    for load in (most * STEP**fewer for fewer in range(CONFIRMING)):
        if load and (served := _at_load(question, best, load)) is not None:
            return started(
                f"Within the limits these serve about {_load_text(question, load)}: "
                f"{served_with_draft(served)}",
                question,
                served,
            )
    return started(f"The nearest: {served_with_draft(nearest[0])}", question, nearest[0])


def _at_load(question: AdviseQuery, served: Served, load: float) -> Served | None:
    """The same servers at another load; None if they do not suffice there."""
    changes = {"clients": round(load)} if question.clients is not None else {"request_rate": load}
    smaller = replace(question, **changes)
    estimate = estimated(smaller, served.candidate, served.row.gamma != 0)
    found = None if estimate is None else replayed(smaller, estimate)
    return found if found is not None and found.suffices else None


def _load_text(question: AdviseQuery, load: float) -> str:
    """Clients, or requests per second with two digits."""
    return clients(round(load)) if question.clients is not None else request_rate(load, ".2g")


def _by_share(search: LoadSearch) -> list[Served]:
    """The servers with the most requests within the limits first."""
    return sorted(search.served, key=lambda s: (-(s.row.slo_share or 0.0), -s.row.requests_per_s, s.tpot_s))


def _one_request(search: LoadSearch) -> list[Priced]:
    """One request alone on every layout, without a draft."""
    alone, _ = price(search.candidates.baselines, [], at_batch(search.question, 1))
    return alone
