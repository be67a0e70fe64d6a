"""Explains why no servers can serve the load of a question to `advise`, and names servers to start
instead.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_choice import with_shorter_draft
from perfmodel.answers.advice.better_changes import as_asked
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.eased_limit import fewest_with_eased_limit, with_eased_limits
from perfmodel.answers.advice.infeasible import Infeasible, why_infeasible
from perfmodel.answers.advice.instead import fastest, with_changes
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_in_formats import in_formats
from perfmodel.answers.advice.load_reasons import enough_text, load_text, served_with_draft
from perfmodel.answers.advice.load_search import LoadSearch
from perfmodel.answers.advice.nearest import NearestServers, nearest_servers, reaches_of
from perfmodel.answers.advice.one_alone import OneAlone, one_alone
from perfmodel.answers.advice.one_request import at_batch, without_load
from perfmodel.answers.advice.other_servers import all_reaches, fewest_gpus
from perfmodel.answers.advice.pools.fewest import fewer_in_two_pools
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.reach import Reach
from perfmodel.answers.advice.searched_layouts import searched_layouts
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.servers_instead import Instead
from perfmodel.answers.advice.shorter_draft import shorter_draft
from perfmodel.answers.advice.smaller_formats import in_smaller_weights
from perfmodel.answers.advice.smaller_servers import best_with_seats
from perfmodel.answers.advice.started import started
from perfmodel.answers.advice.ways import Way
from perfmodel.answers.question import Named
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError


@dataclass(frozen=True, slots=True)
class Insufficient:
    """Why a load cannot be served.

    - why: the reason, and changes with which the model fits in memory.
    - nearest: the servers that serve the largest part of the load on the given devices.
    - alone: the latency of one request alone, if even one request exceeds the limits.
    - reaches: the largest load of each candidate, without a draft and with a draft.
    """

    search: LoadSearch
    why: Infeasible
    nearest: NearestServers | None
    alone: OneAlone | None
    reaches: list[Reach]

    @classmethod
    def of(cls, search: LoadSearch) -> "Insufficient":
        """Finds the reason. Either memory is too small, or a latency limit is exceeded."""
        question = search.question
        priced_alone = _one_request(search)
        if not any(priced.fits.any() for priced in priced_alone):
            return cls(
                search, why_infeasible(question, priced_alone, [], search.candidates.skips), None, None, []
            )
        if not search.served or question.gpus is None:
            lowest_s = min(
                float(priced.tpot_s[priced.fits].min()) for priced in priced_alone if priced.fits.any()
            )
            alone = one_alone(question, search.candidates)
            limit = f"the TPOT of one request alone without a draft is {seconds(lowest_s)}"
            why = f"no number of servers serves {load_text(question)}; {alone.text if alone else limit}"
            return cls(search, Infeasible(why), None, alone, [])
        without, drafted = reaches_of(question, search.candidates)
        nearest = nearest_servers(question, without, drafted)
        these = "1 GPU does not" if question.gpus == 1 else f"{question.gpus} GPUs do not"
        why = f"{these} serve {load_text(question)}"
        if nearest is not None:
            why += f", but about {nearest.nearest.load_text}: {nearest.nearest.limit_text}"
            return cls(search, Infeasible(why), nearest, None, without + drafted)
        alone = one_alone(question, search.candidates)
        if alone is not None:
            why += f"; {alone.text}"
        return cls(search, Infeasible(why), None, alone, without + drafted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of `traffic` about the servers that the reason describes."""
        if self.nearest is not None:
            return self.nearest.nearest.warnings
        return () if self.alone is None else self.alone.served.warnings

    def instead(self) -> Instead:
        """Servers to start if the load cannot be served. The first ones serve the largest part of the load on
        the given devices. Others serve the whole load on the smallest number of devices, or have smaller
        weights. If nothing fits in memory, there is one server for each change with which the model fits.
        """
        if self.why.ways:
            return self._with_changes()
        layouts = [candidate.layout for candidate in self.search.candidates.baselines]
        if self.search.question.gpus is None or not layouts:
            return Instead(tuple(self._on_any_devices()))
        return Instead(tuple(self._on_given_devices(layouts)))

    def _on_any_devices(self) -> Iterator[Alternative]:
        """The fastest server, servers within an eased limit, and servers with smaller weights."""
        question = self.search.question
        alone = fastest(without_load(question))
        if alone is not None:
            yield alone
        if question.gpus is None and self.alone is not None:
            eased = fewest_with_eased_limit(question, self.alone)
            if eased is not None:
                yield eased
        yield from _fewest_in_smaller_weights(question)

    def _on_given_devices(self, layouts: list[Layout]) -> Iterator[Alternative]:
        """Servers on the given devices, and servers for the whole load on more devices.

        - layouts: the searched layouts of the given devices.
        """
        question = self.search.question
        if self.nearest is not None:
            yield _nearest(self.nearest)
        eased = self._eased(layouts)
        if eased is not None:
            yield eased
        counted = replace(question, gpus=None)
        fewest = fewest_gpus(counted, all_reaches(counted, self.reaches, layouts))
        gpus = math.inf if fewest is None else fewest.candidate.layout.gpus
        if fewest is not None:
            yield started(enough_text(fewest), counted, fewest)
        elif eased is None and self.alone is not None:
            eased = fewest_with_eased_limit(counted, self.alone)
            if eased is not None:
                yield eased
        yield from fewer_in_two_pools(question, gpus)
        nearest = None if self.nearest is None else self.nearest.served
        yield from _shorter(question, [served for served in (nearest, fewest) if served is not None])
        limits = list(question.latency_limits_ms) if eased is None else []
        most = 0.0 if self.nearest is None else self.nearest.load
        yield from in_formats(question, self._promising(layouts), most, limits, gpus)

    def _with_changes(self) -> Instead:
        """One server for each change with which the model fits. The change to try first loses the least
        precision of those with a seat for every request. If there is none, it is the first one without a
        load.
        """
        changed = with_changes(without_load(self.search.question), self.why.ways)
        if not changed.ways:
            return changed
        first = changed.ways[0]
        kept = [way for way in self.why.ways if way in changed.ways]
        enough: dict[str, Alternative | None] = {}
        for way in kept if first in kept else [*kept, first]:
            found = self._sufficient(way)
            if found is not None and not found[1].queues:
                return self._on_other_devices(changed.with_first(way, (found[0],)))
            enough[way.text] = None if found is None else found[0]
        queued = enough[first.text]
        under_load = tuple(self._largest_part(first)) if queued is None else (queued,)
        return self._on_other_devices(changed.with_first(first, under_load))

    def _on_other_devices(self, instead: Instead) -> Instead:
        """The same servers, with those on other devices, or on more devices, for the load."""
        servers = dict[str, Alternative]()
        for each in instead.of_ways:
            if each.way.on_given_devices or each.server in instead.alternatives[:1]:
                continue
            found = self._sufficient(each.way)
            part = islice(self._largest_part(each.way), 1)
            for server in part if found is None else (found[0],):
                servers[each.way.text] = server
        return instead.with_loads(servers)

    def _sufficient(self, way: Way) -> tuple[Alternative, Served] | None:
        """The servers that serve the load after a change; None if none do."""
        changed = replace(self.search.question, **as_asked(way.changes or {}))
        opening, changed, served = best_with_seats(way.opening, changed, _layouts_of(changed))
        if served is None:
            return None
        words = enough_text(served)
        if changed.gpus != self.search.question.gpus:  # the opening states the number of GPUs
            words = f"these suffice: {served_with_draft(served)}"
        return started(f"{opening} {words}", changed, served), served

    def _largest_part(self, way: Way) -> Iterator[Alternative]:
        """The servers that serve the largest part of the load after a change, and others with smaller number
        formats.
        """
        question = self.search.question
        changed = replace(question, **as_asked(way.changes or {}))
        layouts = _layouts_of(changed)
        best = None if changed.gpus is None else _nearest_on(changed, layouts)
        if best is None:
            return
        words = f"these serve about {best.nearest.load_text}: {served_with_draft(best.served)}"
        yield started(f"{way.opening} {words}", best.question, best.served)
        limits = list(question.latency_limits_ms)
        yield from in_formats(question, _layouts_of(question), best.load, limits, math.inf)

    def _eased(self, layouts: list[Layout]) -> Alternative | None:
        """The servers on the given devices that serve the whole load if the binding limit is longer, or
        otherwise if all limits are longer. The result is None if no servers do so, or if no limit binds.
        """
        question = self.search.question
        if self.nearest is not None:
            limit = self.nearest.nearest.limit
        else:
            limit = "" if self.alone is None else self.alone.limit
        limits = question.latency_limits_ms
        if limit not in limits:
            return None
        tried = ([limit], list(limits)) if len(limits) > 1 else ([limit],)
        found = (with_eased_limits(question, layouts, each) for each in tried)
        return next((eased for eased in found if eased is not None), None)

    def _promising(self, layouts: list[Layout]) -> list[Layout]:
        """The layouts to try with smaller weights: the layout of the nearest servers, and similar layouts
        with servers of half the size. Without nearest servers, all layouts are tried.
        """
        if self.nearest is None:
            return layouts
        best = self.nearest.served.candidate.layout
        half = [each for each in layouts if 2 * each.server_gpus == best.server_gpus and each.is_alike(best)]
        return [best, *half]


def _fewest_in_smaller_weights(question: AdviseQuery) -> Iterator[Alternative]:
    """The servers on the fewest devices that serve the load with smaller weights. The weights are in the
    first format with which any number of devices is sufficient.
    """
    for flag, changed in in_smaller_weights(question):
        fewest = fewest_gpus(changed, all_reaches(changed))
        if fewest is not None:
            yield started(f"With {flag} {enough_text(fewest)}", changed, fewest)
            return


def _layouts_of(question: AdviseQuery) -> list[Layout]:
    """The layouts that a question searches."""
    named = Named.of(question)
    return searched_layouts(question, named.target, named.gpu)


def _nearest_on(question: AdviseQuery, layouts: list[Layout]) -> NearestServers | None:
    """The servers of some layouts with the largest load; None if no servers can serve any load."""
    try:
        return nearest_servers(question, *reaches_of(question, find_candidates(question, layouts)))
    except InputError:
        return None


def _shorter(question: AdviseQuery, named: list[Served]) -> Iterator[Alternative]:
    """The shorter draft of the first of these servers that has one. There is at most one, because its text
    does not name the server.
    """
    found = (shorter_draft(question, served.point) for served in named)
    yield from islice((with_shorter_draft(shorter) for shorter in found if shorter is not None), 1)


def _nearest(best: NearestServers) -> Alternative:
    """The servers with the largest load."""
    these = "Within the limits these" if best.question.latency_limits_ms else "These"
    words = f"{these} serve about {best.nearest.load_text}: {served_with_draft(best.served)}"
    return started(words, best.question, best.served)


def _one_request(search: LoadSearch) -> list[Priced]:
    """The predictions for one request alone on every layout, without a draft."""
    return price(search.candidates.baselines, [], at_batch(search.question, 1)).alone
