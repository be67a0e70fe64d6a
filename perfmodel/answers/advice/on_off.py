"""Finds the batch sizes at which a server should use its draft, in the same way as `schedule`."""

from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES, length_tables
from perfmodel.answers.advice.prices import room
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.servers_needed import fitting_seats


@dataclass(frozen=True, slots=True)
class OnOff:
    """The numbers of running sequences at which a server with the draft is faster: from `on_from` to
    `off_from` - 1.

    - off_from: None if the draft is still faster at `looked_to`.
    - looked_to: the largest batch that was tried.
    """

    draft: str
    on_from: int
    off_from: int | None
    looked_to: int


def on_off(point: PricedPoint, query: AdviseQuery) -> OnOff | None:
    """The batch sizes at which the draft of a point is faster than the baseline on the same server. The
    result is None if there are no such batch sizes.
    """
    s = point.candidate.scenario
    fitting = fitting_seats(query, point.candidate, point.gamma)
    most = min(fitting, max(MAX_BATCHES, point.batch))
    table = length_tables(s, (int(query.context),), (most,), query.max_gamma)[0]
    on = [r for r in table.ranges if r.tokens]
    if not on:
        return None
    last = on[-1].high
    return OnOff(s.draft.name, on[0].low, last + 1 if last < most else None, most)


def seats_of(query: AdviseQuery, chosen: PricedPoint) -> int | None:
    """The largest number of sequences that the server may run at once. None means the batch of `chosen`.

    If the objective is latency, the chosen batch is 1, but a second request should not have to wait. The
    server then runs as many sequences as fit in memory. With a draft, the server runs the largest number of
    sequences at which the draft is faster.
    """
    if query.objective != "latency" or query.batch is not None or query.max_tpot_ms is not None:
        return None
    if chosen.gamma:
        switch = on_off(chosen, query)
        if switch is None:
            return None
        return switch.looked_to if switch.off_from is None else switch.off_from - 1
    fitting = int(room(chosen.candidate.scenario, 1.0, 0.0, query).max_batch)
    return min(fitting, MAX_BATCHES)
