"""Replays requests at fixed loads (*rungs*), and interpolates rows between them. A replay uses random
requests, so the times at two similar loads differ by chance. The higher load may even have the shorter times.
Replays therefore only run at the rungs, which depend only on the server. The times at a rung are raised to
those at the rungs below it, and the times at any other load are interpolated between the two nearest rungs.
At loads below the first rung, requests seldom overlap. The times at such a load are therefore the times at
the first rung, and the number of running requests is proportional to the load. A policy changes its draft
length with the load, so it is replayed at each load of the question.

If the closed form is accurate at a load, the row comes from the closed form. The times of the closed form at
the rungs are then bounds on the times at all loads between the rungs.

At a request rate above the capacity of a server, the state of the server is the same as at capacity. Each
request arrives earlier than it would at capacity, and waits longer by this difference. If the number of
requests at once is limited, the request waits at the client, and TTFT does not include this wait. In a closed
loop, more clients than a full server can seat also only wait longer.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from perfmodel.answers.load.closed_rows import closed_rows
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.replayed_load import ReplayedLoad
from perfmodel.answers.load.requests import WAVES, requests_at
from perfmodel.answers.load.rising import at_least, at_most
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, TrafficRow, load_of
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.trace import LONGEST

SHARES = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 1.0)
"""Rungs of an open loop, as shares of the largest rate that the server can serve."""
CAPPED = (*SHARES, 1.2, 1.5)
"""Rungs of an open loop with a limit on requests at once. At the last rung, the limit is always reached."""
CLIENTS = tuple(sorted({round(2 ** (half / 2)) for half in range(48)}))
"""Rungs of a closed loop. In a steady state, the number of seats is a rung too, because one more client
has to wait.
"""
BELOW = 2
"""The times at a rung are raised to those of this many rungs below it. In open loops, a lower rung hardly
ever has longer times. Of 1,638 pairs of rungs of random servers, the lower rung had longer percentiles in 13
pairs, by at most 1 %. The rungs of these pairs were at most two rungs apart.
"""
NEAR_TPOT = 0.9
"""From this share of the closed form's TPOT on, a replay of clients may have a longer TPOT."""
NEAR_TTFT = 0.75
"""From this share of the closed form's TTFT on, a replay of clients may have a longer TTFT."""
CARRIED = 0.97
"""If a replay answers at least this share of the request rate while requests arrive, the server carries the
rate.
"""
QUEUED = 1.25
"""From this many clients per seat on, clients wait for a seat at all times. More clients then only wait
longer. In replays, the throughput changed by at most 2 % from there on.
"""
MOST_CLIENTS = LONGEST // WAVES
"""Largest number of clients that a replay takes into a steady state."""
PARTS = 8
"""Number of parts into which the range between two rungs is divided. At the ends of each part, the closed
form bounds a replay.
"""
IDLE: dict[str, Any] = dict.fromkeys(
    ("running_mean", "output_tokens_per_s", "requests_per_s", "kv_share"), 0.0
)
"""Values of a row for a server without requests."""
FIGURES = (*IDLE, "tokens_per_iteration")
"""Fields of a row that are always numbers."""
SHARED = ("prefix_hit_rate", "slo_share")
"""Fields that may be None in a row."""
TIMES = ("tpot_s", "ttft_s", "e2e_s")
"""Fields of a row with a mean and percentiles."""


@dataclass(slots=True)
class Ladder:
    """The rungs for one draft length or policy of a question. A rung is replayed when a load needs it for the
    first time.

    - log_off: standard deviation of the logarithm of the mean TPOT.
    - loads: the loads of the rungs.
    - closed: the rows of the closed form at the rungs.
    - bounds: those of these rows at which the closed form is accurate, with times raised to the times at
      lower rungs.
    - more_bounds: such rows at the rungs and at loads between them.
    - met: number of a rung -> its replay.
    - rungs: number of a rung -> its row.
    """

    question: TrafficQuery
    replica: Replica
    choice: Choice
    log_off: float | None
    loads: tuple[float, ...] = field(init=False)
    closed: list[TrafficRow] = field(init=False)
    bounds: list[TrafficRow] = field(init=False)
    more_bounds: list[TrafficRow] = field(init=False, default_factory=list)
    met: dict[int, ReplayedRequests] = field(init=False, default_factory=dict)
    rungs: dict[int, TrafficRow] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.question.opens:
            shares = CAPPED if self.question.capped else SHARES
            most = self._most_requests_per_s()
            self.loads = tuple(share * most for share in shares)
        else:
            self.loads = _clients(self.question, self.choice.steps.seats)
        self.closed = self._closed(self.loads)
        self.bounds = self._bounds(self.closed)

    def _most_requests_per_s(self) -> float:
        """The rate that the server can carry, with a limit on requests at once if there is one."""
        question = self.question
        if question.capped:
            loop = question.capped_loop
            served = serve(self.choice.steps, loop.load(loop.values), question.limits, question.spread)
            return float(served.requests_per_s[0])
        return capacity(self.choice.steps, question.lengths, question.limits).requests_per_s

    def bounded(self, load: float, row: TrafficRow) -> TrafficRow:
        """The row, with its times limited to a range. The closed form at the next lower load gives the lower
        end of this range, and at the next higher load the upper end.
        """
        bounds = self._between_rungs() if row.made_by is MadeBy.REPLAY else self.bounds
        higher = bisect_right(bounds, load, key=load_of)
        if higher > 0:
            row = at_least(row, bounds[higher - 1])
        if higher < len(bounds):
            row = at_most(row, bounds[higher])
        return row

    def _between_rungs(self) -> list[TrafficRow]:
        """The bounds at the rungs and at loads between them."""
        if not self.more_bounds:
            at = np.arange(0.0, len(self.loads) - 1.0, 1.0 / PARTS)
            loads = np.interp(at, np.arange(len(self.loads)), self.loads)
            if not self.question.opens:
                loads = np.unique(np.round(loads))
            self.more_bounds = self._bounds([*self._closed(loads.tolist()), self.closed[-1]])
        return self.more_bounds

    def _bounds(self, rows: Sequence[TrafficRow]) -> list[TrafficRow]:
        """The rows at which the closed form is used, with times raised to the times at lower loads."""
        standing = [row for row in rows if self._holds(row)]
        return list(accumulate(standing, lambda lower, row: at_least(row, lower)))

    def replayed(self, load: float, closed: TrafficRow, rough: bool = False) -> TrafficRow:
        """The row at a load, from replays.

        - closed: the row of the closed form at this load.
        - rough: if true, the times at a rung are not raised to those at lower rungs. This takes fewer
          replays, and no time is longer than without it.
        """
        if _is_policy(self.choice):
            return self._alone(load, closed)
        last = len(self.loads) - 1
        low = max(bisect_right(self.loads, load) - 1, 0)
        row = self._raised(low, rough)
        if load < self.loads[0]:
            row = between(replace(row, **IDLE), row, load / self.loads[0])
        if low == last and (closed.saturated or load > self.loads[last]):
            row = at_least(self._late(load, closed), row)
        nearest = low
        if low < last and load > self.loads[low]:
            share = (load - self.loads[low]) / (self.loads[low + 1] - self.loads[low])
            row = between(row, self._raised(low + 1, rough), share)
            nearest += round(share)
        return self._finished(row, load, closed, nearest)

    def _alone(self, load: float, closed: TrafficRow) -> TrafficRow:
        """The row of a policy, from a replay at this load. A policy changes its draft length between two
        rungs, so its rows are not interpolated. Clients beyond `MOST_CLIENTS` lengthen the queue.
        """
        run = self._run(load)
        if not self.question.settles or load <= MOST_CLIENTS:
            return run.row(self.choice, run.served(self.choice.steps), closed, self.log_off)
        met = self._run(MOST_CLIENTS).served(self.choice.steps)
        return run.row(self.choice, _queued(met, load - MOST_CLIENTS), closed, self.log_off)

    def _closed(self, loads: Sequence[float]) -> list[TrafficRow]:
        """The rows of the closed form, without intervals."""
        choice = replace(self.choice, at=np.arange(len(loads)))
        return closed_rows(self.question, choice, None, np.array(loads), bounds=True)

    def _holds(self, row: TrafficRow) -> bool:
        """Whether the closed form is used for a row, because it is accurate or because the question asks for
        it.
        """
        return not self.question.replays and (self.question.closed_form or not row.doubts)

    def _raised(self, rung: int, rough: bool) -> TrafficRow:
        """The row of a rung, with times raised to the times at the rungs below it.

        - rough: whether the row keeps its own times.
        """
        if rough:
            return self._rung(rung)
        below = [self._rung(lower) for lower in range(rung) if self._near(lower, rung)]
        return reduce(at_least, below, self._rung(rung))

    def _near(self, lower: int, rung: int) -> bool:
        """Whether the times at a lower rung may be longer, either by chance or because sessions find less of
        their contexts in the cache there.
        """
        if self.question.turns > 1:
            return True
        if self.question.opens:
            return rung - lower <= BELOW
        row = self.closed[rung]
        other = self.closed[lower]
        if rung - lower <= BELOW or other.tpot_s.mean > NEAR_TPOT * row.tpot_s.mean:
            return True
        if row.ttft_s is None or other.ttft_s is None:
            return False
        return other.ttft_s.mean > NEAR_TTFT * row.ttft_s.mean

    def _rung(self, rung: int) -> TrafficRow:
        """The replayed row of a rung, with its own times."""
        if rung not in self.rungs:
            run = self._run(self.loads[rung])
            self.rungs[rung] = run.row(self.choice, self._met(rung), self.closed[rung], None)
        return self.rungs[rung]

    def _met(self, rung: int) -> ReplayedRequests:
        """The replay at a rung."""
        if rung not in self.met:
            self.met[rung] = self._run(self.loads[rung]).served(self.choice.steps)
        return self.met[rung]

    def _late(self, load: float, closed: TrafficRow) -> TrafficRow:
        """The row of a saturated server at a load above the last rung. At a request rate, requests arrive
        sooner than at its capacity. With clients, each further client lengthens the queue by one request.
        """
        last = len(self.loads) - 1
        met = self._met(last)
        if not self.question.opens:
            return self._run(load).row(self.choice, _queued(met, load - self.loads[last]), closed, None)
        requests = requests_at(self.question, self.loads[last])
        sooner_s = requests.at_s * (1.0 - self.loads[last] / load)
        if requests.shared is not None and requests.shared.follows:
            answers_first = [before is not None for before in requests.shared.follows]
            sooner_s[answers_first] = 0.0
        late = replace(met, ttft_s=met.ttft_s + sooner_s, e2e_s=met.e2e_s + sooner_s)
        return self._run(load).row(self.choice, late, closed, None)

    def _run(self, load: float) -> ReplayedLoad:
        """The requests of a load, ready for a replay."""
        question = self.question
        requests = requests_at(question, load)
        return ReplayedLoad(
            question, self.replica.scenario, self.replica.lengths, requests, question.loop.named(load)
        )

    def _finished(self, row: TrafficRow, load: float, closed: TrafficRow, nearest: int) -> TrafficRow:
        """The closed form's row with the replayed figures, notes and intervals.

        - nearest: the number of the rung nearest to the load.
        """
        met = self._met(nearest)
        notes = tuple(self._run(load).notes(met, closed, closed.saturation_rate))
        interval = None
        if self.log_off is not None and met.mean_tpot_s:
            ends_s = self._run(self.loads[nearest]).interval(self.choice.steps, self.log_off, met)
            low, high = (end_s / met.mean_tpot_s for end_s in ends_s)
            interval = low * row.tpot_s.mean, high * row.tpot_s.mean
        replayed = {name: getattr(row, name) for name in (*TIMES, *FIGURES, *SHARED)}
        done = replace(closed, **replayed, warnings=notes, tpot_interval=interval, made_by=MadeBy.REPLAY)
        done = _carried(self.question, done, load)
        return with_intervals(done, self.log_off, self.replica.scenario)


def _queued(met: ReplayedRequests, more: float) -> ReplayedRequests:
    """The results of a saturated closed loop with `more` clients, each of which waits in the queue."""
    wait_s = more * met.duration_s / met.ttft_s.size
    return replace(met, ttft_s=met.ttft_s + wait_s, e2e_s=met.e2e_s + wait_s)


def _carried(question: TrafficQuery, row: TrafficRow, load: float) -> TrafficRow:
    """The row of an open loop with the throughput of a server that serves all arriving requests for a long
    time. The throughput of a replay is lower, because no requests arrive while its last requests decode. The
    row is unchanged if requests arrive faster than the server answers them.
    """
    if not question.opens or question.capped or question.replays or question.turns > 1 or not row.e2e_s:
        return row
    arriving_s = question.num_prompts / row.requests_per_s - row.e2e_s.mean
    if question.num_prompts < CARRIED * load * arriving_s:
        return row
    return replace(row, requests_per_s=load, output_tokens_per_s=load * question.lengths.output_mean)


def most_replays(question: TrafficQuery, rows: int, choices: Sequence[Choice]) -> int:
    """An upper bound on the number of replays that a question needs.

    - rows: number of its rows.
    - choices: its draft lengths and policies.
    """
    rungs = len(CAPPED) if question.opens else len(_clients(question)) + 1
    policies = sum(_is_policy(choice) for choice in choices)
    lengths = len(choices) - policies
    return min(rows * (BELOW + 2), lengths * rungs + policies * question.loop.values.size)


def _is_policy(choice: Choice) -> bool:
    """Whether the draft length of a choice changes with the load."""
    return not isinstance(choice.gamma, int)


def _clients(question: TrafficQuery, seats: int | None = None) -> tuple[float, ...]:
    """The rungs of a closed loop, up to the first one above all numbers of clients, or to the first one at
    which clients always wait.

    - seats: the largest number of requests that the server runs at once.
    """
    most = 2 * question.loop.values.max()
    rungs = set(CLIENTS)
    if seats and question.settles:
        waiting = next(clients for clients in CLIENTS if clients >= QUEUED * seats)
        most = min(most, waiting)
        rungs.add(seats)
    return tuple(float(clients) for clients in sorted(rungs) if clients <= most)


def between(low: TrafficRow, high: TrafficRow, share: float) -> TrafficRow:
    """Interpolates between two rows, geometrically for times and linearly for other values.

    - share: 0 gives `low`, 1 gives `high`.
    """
    values: dict[str, Any] = {name: _part(getattr(low, name), getattr(high, name), share) for name in FIGURES}
    for name in SHARED:
        lower = getattr(low, name)
        higher = getattr(high, name)
        values[name] = None if lower is None or higher is None else _part(lower, higher, share)
    for name in TIMES:
        lower = getattr(low, name)
        higher = getattr(high, name)
        values[name] = None if lower is None or higher is None else lower.between(higher, share)
    return replace(low, **values)


def _part(low: float, high: float, share: float) -> float:
    return low + share * (high - low)
