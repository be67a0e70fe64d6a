"""Makes the requests of a replay, from a trace or at random."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from perfmodel.answers.load.traced import RATE_DIGITS, rate_of, trace_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.prefix import Reuse
from perfmodel.queueing.sessions import draw
from perfmodel.queueing.trace import LONGEST

WAVES = 5
"""Smallest number of requests of each client in a replay of a closed loop. The first two requests and the
last request of each client are left out of the results (`ReplayedRequests.in_steady_state`).
"""


def count_at(question: TrafficQuery, load: float) -> int:
    """The number of random requests in a replay at a load. With many clients, it rises with their number, up
    to `LONGEST`. If the question asks for replays, it is the stated number, as in a benchmark.
    """
    if not question.settles:
        return question.num_prompts
    return max(question.num_prompts, min(WAVES * round(load), LONGEST))


def requests_at(question: TrafficQuery, load: float) -> Arrivals:
    """The requests for one load of the question.

    For a request rate, the arrival times of a trace are scaled so that they have this rate. For clients, only
    the order of the requests in a trace matters. Raises InputError for wrong input.
    """
    if question.trace is None:
        rate = load if question.opens else None
        drawing = count_at(question, load), rate, question.burstiness, question.seed
        requests = _drawn(question.lengths, question.reuse, *drawing)
        if question.settles and not question.in_lockstep:
            return requests.out_of_step(round(load))
        return requests
    trace = replayed_trace(question)
    if not question.opens:
        return replace(trace, at_s=np.zeros_like(trace.at_s))
    traced_rate = rate_of(trace_of(question.trace))
    if (
        traced_rate is None or float(f"{traced_rate:.{RATE_DIGITS}g}") == load
    ):  # the load is the rate of the trace
        return trace
    return replace(trace, at_s=trace.at_s * (traced_rate / load))


@lru_cache(maxsize=8)
def _drawn(
    lengths: Lengths, reuse: Reuse | None, count: int, rate: float | None, burstiness: float, seed: int
) -> Arrivals:
    """The random requests of a load. They are cached, because all servers and drafts are compared at the same
    requests, and because any number of clients sends the same ones.
    """
    if reuse is None:
        return arrivals(lengths, count, rate, burstiness, seed)
    return draw(reuse, count, rate, burstiness, seed)


def replayed_trace(question: TrafficQuery) -> Arrivals:
    """The first requests of the question's trace, at most `LONGEST`."""
    assert question.trace is not None
    return trace_of(question.trace).first(LONGEST)


def left_out_note(trace: Arrivals) -> str | None:
    """A remark if a replay only has the first requests of a trace, otherwise None."""
    if trace.at_s.size <= LONGEST:
        return None
    return f"the first {LONGEST:,} of the trace's {trace.at_s.size:,} requests are replayed"
