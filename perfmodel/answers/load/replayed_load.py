"""Replays requests at one load, and makes a row from their times."""

import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from perfmodel.answers.load.acceptance_along import gains_along
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.requests import left_out_note
from perfmodel.answers.load.traced import trace_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, Percentiles, TrafficRow
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.load import Lengths, Load
from perfmodel.queueing.policies import Choice
from perfmodel.queueing.replay import replay
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import Z
from perfmodel.speculation import Scenario

OF_INTERVAL = 500
"""Number of requests in the replays from which the ends of an interval are computed."""
MOST_KEPT_BYTES = 2**18
"""The result of a replay is cached if its arguments have at most this many bytes. This corresponds to about
5,000 requests.
"""


@dataclass(frozen=True, slots=True)
class ReplayedLoad:
    """Requests to replay at one load.

    - where: the load, as the fields `request_rate` and `concurrency` of a row.
    """

    question: TrafficQuery
    scenario: Scenario
    lengths: Lengths
    requests: Arrivals
    where: dict[str, Any]

    def served(self, steps: StepTimes, count: int | None = None) -> ReplayedRequests:
        """Replays the requests, or the first `count` of them, and returns their times.

        - steps: times of the passes.
        """
        question = self.question
        clients = self.where["concurrency"]
        cap = None
        if self.where["request_rate"] is not None:
            cap = clients
            clients = None
        requests = self.requests if count is None else self.requests.first(count)
        contexts = requests.input_tokens + requests.output_tokens / 2.0
        gains = gains_along(question, self.scenario, steps.gamma, contexts)
        around = None
        if gains is None:
            around = self.around(steps) if steps.table else None
        else:
            requests = replace(requests, gain=gains / steps.tokens_per_iteration)
        met = replayed(
            steps,
            self.lengths,
            question.limits,
            requests,
            clients,
            question.spread,
            question.seed,
            cap,
            around,
        )
        return met.in_steady_state(clients) if question.settles and clients else met

    def around(self, steps: StepTimes) -> int:
        """The approximate mean number of running requests, according to the closed form."""
        rate = self.where["request_rate"]
        clients = None if rate else float(self.where["concurrency"])
        load = Load(self.lengths, rate=rate, clients=clients)
        return max(round(float(serve(steps, load, self.question.limits).running[0])), 1)

    def row(
        self, choice: Choice, met: ReplayedRequests, closed: TrafficRow, log_off: float | None
    ) -> TrafficRow:
        """The row of a draft length or policy (`choice`).

        - met: the result of the replay.
        - closed: the row of the closed form.
        - log_off: standard deviation of the logarithm of the mean TPOT.
        """
        question = self.question
        steps = choice.steps
        most = capacity(steps, self.lengths, question.limits).requests_per_s
        interval = None
        if log_off is not None and met.mean_tpot_s:
            interval = self.interval(steps, log_off, met)
        gained = float(np.interp(met.running, steps.batches, steps.gains))
        timed = met.output_tokens > 1  # one token has no time per token
        slo_share = _share(question, met) if question.limits_s else None
        output_tokens_per_s = float(met.output_tokens.sum()) / met.duration_s
        kv_share = min(met.running * steps.kv_share, 1.0)
        row = replace(
            closed,
            running_mean=float(met.running),
            tpot_s=Percentiles.of(met.tpot_s[timed]),
            ttft_s=Percentiles.of(met.ttft_s),
            e2e_s=Percentiles.of(met.e2e_s),
            output_tokens_per_s=output_tokens_per_s,
            requests_per_s=met.ttft_s.size / met.duration_s,
            saturation_rate=most,
            slo_share=slo_share,
            prefix_hit_rate=met.hit_rate,
            kv_share=kv_share,
            tpot_interval=interval,
            tokens_per_iteration=gained,
            made_by=MadeBy.REPLAY,
            warnings=tuple(self.notes(met, closed, most)),
        )
        return with_intervals(row, log_off, self.scenario)

    def notes(self, met: ReplayedRequests, closed: TrafficRow, most: float) -> Iterator[str]:
        """The warnings of a row.

        - most: the requests per second that the server can serve.
        """
        if not closed.saturated:
            yield from closed.warnings
        if met.preemptions:
            plural = "s" if met.preemptions > 1 else ""
            yield f"{met.preemptions} preemption{plural}"
        trace = self.question.trace
        if trace is not None and (note := left_out_note(trace_of(trace))):
            yield note
        rate = self.where["request_rate"]
        if rate is not None and closed.concurrency is None and rate >= most:
            yield (
                f"requests come at {rate:.3g}/s, but only {most:.3g}/s can be served: TTFT grows until "
                "they stop"
            )

    def interval(self, steps: StepTimes, log_off: float, met: ReplayedRequests) -> tuple[float, float]:
        """The ends of the 90 % interval of the mean TPOT, in seconds. The ends come from two replays of the
        first `OF_INTERVAL` requests. The passes are faster in one replay and slower in the other, by the
        error of the TPOT.
        """
        factors = (math.exp(-Z * log_off), 1.0, math.exp(Z * log_off))
        low, few, high = (self.served(steps.slowed(f), OF_INTERVAL).mean_tpot_s for f in factors)
        scale = met.mean_tpot_s / few if few else 1.0
        return scale * min(low, few), scale * max(high, few)


def replayed(*served: Any) -> ReplayedRequests:
    """Calls `replay` with these arguments and caches the result, because several drafts are compared with the
    same baseline.
    """
    pickled = pickle.dumps(served)
    return _known(pickled) if len(pickled) <= MOST_KEPT_BYTES else replay(*served)


@lru_cache(maxsize=128)
def _known(pickled: bytes) -> ReplayedRequests:
    return replay(*pickle.loads(pickled))


def _share(question: TrafficQuery, met: ReplayedRequests) -> float:
    """Share of the requests within every limit of the SLO."""
    within = [met.by_limit[name] <= limit for name, limit in question.limits_s.items()]
    return float(np.all(within, axis=0).mean())
