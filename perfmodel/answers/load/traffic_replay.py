"""The rows of a replay: latencies of drawn requests, or of a trace, on the same server as in the closed
form.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.load.acceptance_along import gains_along
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.traced import lengths_of, rate_of, trace_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow
from perfmodel.operations import Array
from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.closed import serve
from perfmodel.queueing.load import Lengths, Load
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.prefix import Reuse
from perfmodel.queueing.replay import ReplayedRequests, replay
from perfmodel.queueing.sessions import draw
from perfmodel.queueing.steps import StepTimes, step_times
from perfmodel.queueing.trace import LONGEST
from perfmodel.specs import Z
from perfmodel.speculation import Scenario

FEW = 500
"""Number of requests in the replays of both ends of an interval."""


def replayed(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    log_off: Mapping[int, float | None],
    loads: Sequence[float],
) -> tuple[TrafficRow, ...]:
    """A row for each load and draft length. A trace runs at its own rate and has one row for each length.

    log_off: draft length -> standard deviation of the logarithm of its mean TPOT. Raises InputError.
    """
    lengths = question.lengths
    reuse = question.reuse
    if question.trace is not None:
        trace = trace_of(question.trace).first(LONGEST)
        lengths = lengths_of(trace)
        rate = rate_of(trace)
        drafted = {t.gamma for choice in choices for t in (choice.steps.table or (choice.steps,))}
        held = None if trace.shared is None else Reuse(lengths, engine=question.reusing.engine)
        priced = step_times(replica.scenario, lengths, replica.limits, sorted(drafted), reuse=held)
        load = Load(lengths, rate=np.array([rate or np.inf]))
        there = replace(replica, load=load, passes={t.gamma: t for t in priced})
        there = replace(there, load=Load(lengths, rate=np.array([there.sustained(there.passes)])))
        served = [replace(choice, steps=choice.policy.replayed(choice, there)) for choice in choices]
        run = Run(question, replica.scenario, lengths, trace, {"request_rate": rate, "concurrency": None})
        return tuple(run.row(c, log_off.get(c.steps.gamma)) for c in served if c.steps.seats)
    rows = []
    for value in loads:
        where = question.named(value)
        drawn = question.num_prompts, where["request_rate"], question.burstiness, question.seed
        requests = arrivals(lengths, *drawn) if reuse is None else draw(reuse, *drawn)
        run = Run(question, replica.scenario, lengths, requests, where)
        rows += [run.row(c, log_off.get(c.steps.gamma)) for c in choices if c.steps.seats]
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Run:
    """Requests that are served at one load. where: the load, as a row names it."""

    question: TrafficQuery
    scenario: Scenario
    lengths: Lengths
    requests: Arrivals
    where: dict[str, Any]

    def served(self, steps: StepTimes, count: int | None = None) -> ReplayedRequests:
        """The times of the requests, or of the first `count` of them, in a replay."""
        question = self.question
        clients = self.where["concurrency"]
        cap = None
        if self.where["request_rate"] is not None:
            cap = clients
            clients = None
        requests = self.requests if count is None else self.requests.first(count)
        contexts = requests.input_tokens + requests.output_tokens / 2.0
        if (gains := gains_along(question, self.scenario, steps.gamma, contexts)) is not None:
            requests = replace(requests, gain=gains / steps.tokens_per_iteration)
        given = question.limits, requests, clients, question.spread, question.seed, cap
        return replay(steps, self.lengths, *given, around=None if gains is not None else self.around(steps))

    def around(self, steps: StepTimes) -> int | None:
        """Approximate number of running requests; None if all requests come at the start."""
        rate = self.where["request_rate"]
        clients = self.where["concurrency"]
        if (rate or clients) is None:
            return None
        load = Load(self.lengths, rate=rate, clients=None if rate else float(clients))
        return max(round(float(serve(steps, load, self.question.limits).running[0])), 1)

    def row(self, choice: Choice, log_off: float | None) -> TrafficRow:
        """The row of a choice that serves them. log_off: standard deviation of the logarithm of its mean
        TPOT.
        """
        question = self.question
        met = self.served(choice.steps)
        steps = choice.steps
        most = capacity(steps, self.lengths, question.limits)[0]
        rate = self.where["request_rate"]
        notes = [f"{met.preemptions} preemption{'s' * (met.preemptions > 1)}"] if met.preemptions else []
        whole = trace_of(question.trace).at_s.size if question.trace is not None else 0
        if whole > LONGEST:
            notes.append(f"the first {LONGEST:,} of the trace's {whole:,} requests are replayed")
        if question.trace is not None and rate is not None and rate > most:
            notes.append(f"the trace has {rate:.3g} requests/s, but only {most:.3g} can be served")
        row = TrafficRow(
            **self.where,
            gamma=choice.gamma,
            running_mean=met.running,
            tpot_s=percentiles(met.tpot_s[met.output_tokens > 1]),
            ttft_s=percentiles(met.ttft_s),
            e2e_s=percentiles(met.e2e_s),
            output_tokens_per_s=float(met.output_tokens.sum()) / met.duration_s,
            requests_per_s=met.ttft_s.size / met.duration_s,
            saturation_rate=most,
            slo_share=_share(question, met) if question.limits_s else None,
            prefix_hit_rate=met.hit_rate,
            kv_share=min(met.running * steps.kv_share, 1.0),
            tpot_interval=None if log_off is None else self._interval(steps, log_off, met),
            tokens_per_iteration=float(np.interp(met.running, steps.batches, steps.gains)),
            warnings=tuple(notes),
        )
        return with_intervals(row, log_off, self.scenario)

    def _interval(self, steps: StepTimes, log_off: float, met: ReplayedRequests) -> tuple[float, float]:
        """Ends of the 90 % interval of the mean TPOT: the first `FEW` requests, with passes that are faster
        and slower by the error.
        """
        factors = (math.exp(-Z * log_off), 1.0, math.exp(Z * log_off))
        low, few, high = (self.served(steps.slowed(f), FEW).mean_tpot_s for f in factors)
        scale = met.mean_tpot_s / few if few else 1.0
        return scale * min(low, few), scale * max(high, few)


def percentiles(times: Array) -> Percentiles:
    """Percentiles of times in seconds; 0 without any."""
    if not times.size:
        return Percentiles(0.0, 0.0, 0.0, 0.0)
    return Percentiles(float(times.mean()), *map(float, np.quantile(times, (0.5, 0.9, 0.99))))


def _share(question: TrafficQuery, met: ReplayedRequests) -> float:
    times = {"ttft": met.ttft_s, "tpot": met.tpot_s, "e2e": met.e2e_s}
    return float(np.all([times[name] <= limit for name, limit in question.limits_s.items()], axis=0).mean())
