"""Finds servers with smaller weights that serve a load on fewer GPUs, or in less time per request on the same
GPUs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange
from perfmodel.answers.advice.better_changes import change_of
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_order import decoding_share
from perfmodel.answers.advice.load_reasons import enough_text, served_with_draft, sooner_text, suffice_text
from perfmodel.answers.advice.other_servers import all_reaches, best_on, fewest_gpus
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.smaller_formats import in_smaller_weights, with_smaller_cache
from perfmodel.answers.advice.started import started

NOTICED = 0.95
"""A smaller cache is named if a request then takes at most this share of its time without it."""
MUCH_SOONER = 0.85
"""Smaller weights are named if a request then takes at most this share of its time without them."""


@dataclass(frozen=True, slots=True)
class SmallerServers:
    """Servers with smaller weights or a smaller cache.

    - flags: the format as flags.
    - question: the question in this format.
    - gain: what these servers save, in words.
    """

    flags: str
    question: AdviseQuery
    alternative: Alternative
    served: Served
    gain: str

    def change(self, chosen: Served) -> BetterChange:
        """The format with its gain over the choice: in GPUs, or on as many GPUs in the time of a request."""
        gpus = chosen.candidate.layout.gpus / self.served.candidate.layout.gpus
        gain = chosen.request_s / self.served.request_s if gpus == 1.0 else gpus
        point = self.served.at_its_batch(self.question)
        return change_of(self.flags, self.question, point, gain, decoding_share(self.served, self.question))


def smaller_servers(question: AdviseQuery, chosen: Served) -> Iterator[SmallerServers]:
    """Servers with smaller formats of weights that save GPUs or, on the given GPUs, much of the time of a
    request. A format that loses more precision must also save this much compared with formats that lose less.
    """
    best = chosen
    for flags, other in in_smaller_weights(question):
        find = _fewer_gpus if question.gpus is None else _sooner_ended
        found = find(flags, other, best)
        if found is not None:
            best = found.served
            yield found


def beside_cache(smaller: Sequence[SmallerServers], cached: SmallerServers) -> Iterator[SmallerServers]:
    """The servers with smaller formats, and then those with only a smaller cache. Those with smaller weights
    and this cache are left out unless their requests end sooner than with the cache alone.
    """
    for each in smaller:
        if cached.flags not in each.flags or each.served.request_s <= NOTICED * cached.served.request_s:
            yield each
    yield cached


def _fewer_gpus(flags: str, question: AdviseQuery, before: Served) -> SmallerServers | None:
    """The servers on the fewest GPUs that serve the load in a format; None if they need as many GPUs as
    before.
    """
    most = before.candidate.layout.gpus
    fewest = fewest_gpus(question, all_reaches(question), most=most - 1)
    if fewest is None:
        return None
    gpus = f"{suffice_text(fewest.candidate.layout.gpus)}, not {most}"
    alternative = started(f"With {flags} {enough_text(fewest)}", question, fewest)
    return SmallerServers(flags, question, alternative, fewest, gpus)


def _sooner_ended(flags: str, question: AdviseQuery, before: Served) -> SmallerServers | None:
    """The best servers in a format on the given GPUs, if requests end much sooner than before: servers of the
    same size, or of half that size unless the question states a degree.
    """
    layout = before.candidate.layout
    half = None if question.tp or question.ep else layout.halved
    layouts = [layout] if half is None else [layout, half]
    most_s = MUCH_SOONER * before.request_s
    flags, question, best = best_with_seats(flags, question, layouts, most_s)
    if best is None or best.request_s > most_s:
        return None
    gain = sooner_text(before, best)
    alternative = started(f"With {flags} {gain}: {served_with_draft(best)}", question, best)
    return SmallerServers(flags, question, alternative, best, gain)


def best_with_seats(
    flags: str, question: AdviseQuery, layouts: list[Layout], most_s: float = math.inf
) -> tuple[str, AdviseQuery, Served | None]:
    """The best servers in a format on some layouts, and the format. If requests wait for a seat, the format
    includes an FP8 cache, provided that requests then end sooner.

    - most_s: as in `best_on`.
    """
    best = best_on(question, layouts, most_s=most_s)
    if best is None or not best.queues:
        return flags, question, best
    for more, smaller in with_smaller_cache(f"{flags} ", question):
        other = best_on(smaller, layouts, most_s=most_s)
        if other is not None and other.request_s <= NOTICED * best.request_s:
            return more, smaller, other
    return flags, question, best
