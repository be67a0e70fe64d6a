"""Finds smaller number formats of weights and cache with which the given devices serve a load, or more of
it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.eased_limit import with_eased_limits
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_reasons import enough_text, served_with_draft
from perfmodel.answers.advice.nearest import NearestServers, nearest_servers, reaches_of
from perfmodel.answers.advice.other_servers import best_on, fewest_gpus, reaches_on
from perfmodel.answers.advice.reach import MORE, Reach, load_of
from perfmodel.answers.advice.smaller_formats import in_smaller_formats
from perfmodel.answers.advice.started import started
from perfmodel.errors import InputError

MUCH_MORE = 1.1
"""A format that does not serve the whole load is named if it serves at least this many times as much as
before.
"""
AS_MUCH = 1.2
"""If no format serves the whole load, the most precise format is named whose load is smaller than the largest
one by at most this factor.
"""


@dataclass(frozen=True, slots=True)
class FormatReach:
    """The largest load in a number format, according to the closed form.

    - flags: the format as flags.
    - question: the question in this format.
    - alone, drafted: the largest load of each candidate, without a draft and with a draft.
    """

    flags: str
    question: AdviseQuery
    alone: list[Reach]
    drafted: list[Reach]

    @property
    def load(self) -> float:
        """The largest load over all candidates."""
        return max((reach.load for reach in (*self.alone, *self.drafted)), default=0.0)

    @property
    def servers(self) -> NearestServers | None:
        """The servers that `traffic` confirms for the largest load."""
        return nearest_servers(self.question, self.alone, self.drafted)


def in_formats(
    question: AdviseQuery, layouts: list[Layout], most: float, limits: list[str], most_gpus: float
) -> Iterator[Alternative]:
    """Servers in the first smaller format with which these layouts serve the whole load. If there is no such
    format, servers in the format with the largest load, if this load is much larger than `most`. In this
    case, there are also servers that serve the whole load in this format, with longer limits or more devices.

    - limits: names of the limits that may be longer. The argument is empty if servers in the question's
      format already serve the load with longer limits.
    - most_gpus: number of devices that the load needs in the question's format; infinite if no number is
      sufficient.
    """
    found = list(_reaches(question, layouts))
    for each in found:
        if MORE * each.load < load_of(question):
            continue
        served = best_on(each.question, layouts)
        if served is not None:
            text = f"With {each.flags} these suffice: {served_with_draft(served)}"
            yield started(text, each.question, served)
            return
    largest = max((each.load for each in found), default=0.0)
    for each in found:
        if AS_MUCH * each.load < largest:
            continue
        best = each.servers
        if best is None or best.load <= MUCH_MORE * most:
            continue
        text = f"these serve about {best.nearest.load_text}: {served_with_draft(best.served)}"
        yield started(f"With {each.flags} {text}", best.question, best.served)
        yield from _for_all(each, best.served.candidate.layout, limits, most_gpus)
        return


def _reaches(question: AdviseQuery, layouts: list[Layout]) -> Iterator[FormatReach]:
    """The largest loads (reaches) in each smaller format that runs in these layouts."""
    for flags, changed in in_smaller_formats(question):
        try:
            candidates = find_candidates(changed, layouts)
            yield FormatReach(flags, changed, *reaches_of(changed, candidates))
        except InputError:
            continue


def _for_all(each: FormatReach, layout: Layout, limits: list[str], most_gpus: float) -> Iterator[Alternative]:
    """Servers of this kind that serve the whole load in a format. The first ones are on the given devices and
    have longer limits. The others are on the fewest devices, if these are fewer than `most_gpus`.
    """
    if limits:
        eased = with_eased_limits(each.question, [layout], limits, each.flags)
        if eased is not None:
            yield eased
    counted = replace(each.question, gpus=None)
    alike = reaches_on(counted, [layout.times(1)])
    fewest = fewest_gpus(counted, alike, most=most_gpus - 1.0)
    if fewest is not None:
        yield started(f"With {each.flags} {enough_text(fewest)}", counted, fewest)
