"""The rows of a replay: what drawn requests, or those of a trace, meet on the same server as the closed
form's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.load.acceptance_along import gains_along
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow
from perfmodel.operations import Array
from perfmodel.queueing.chain import capacity
from perfmodel.queueing.load import Lengths, Load
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.prefix import Reuse
from perfmodel.queueing.replay import Arrivals, ReplayedRequests, arrivals, replay
from perfmodel.queueing.sessions import draw
from perfmodel.queueing.steps import step_times
from perfmodel.queueing.trace import read_trace

LEAST_OUTPUT = 1.001
"""Mean output tokens of a trace at the least: the lengths of a request have a second token."""


def replayed(question: TrafficQuery, replica: Replica, choices: Sequence[Choice]) -> tuple[TrafficRow, ...]:
    """A row for each load and draft length; of a trace at its own rate, one for each length. Raises
    InputError.
    """
    seed, lengths, reuse = question.seed, question.lengths, question.reuse
    if question.trace is not None:
        trace = read_trace(question.trace)
        lengths = _lengths_of(trace)
        rate = (trace.at_s.size - 1) / trace.at_s[-1] if trace.at_s[-1] > 0 else np.inf  # all at once
        drafted = {t.gamma for choice in choices for t in (choice.steps.table or (choice.steps,))}
        held = None if trace.shared is None else Reuse(lengths, engine=question.reusing.engine)
        priced = step_times(replica.scenario, lengths, replica.limits, sorted(drafted), reuse=held)
        load = Load(lengths, rate=np.array([rate]))
        there = replace(replica, load=load, passes={t.gamma: t for t in priced})
        there = replace(there, load=Load(lengths, rate=np.array([there.sustained(there.passes)])))
        served = [replace(choice, steps=choice.policy.replayed(choice, there)) for choice in choices]
        where = {"request_rate": float(rate) if np.isfinite(rate) else None, "concurrency": None}
        return tuple(_row(question, replica, lengths, c, trace, where) for c in served if c.steps.seats)
    rows = []
    for load in question.loads.tolist():
        where = question.named(load)
        drawn = question.num_prompts, where["request_rate"], question.burstiness, seed
        requests = arrivals(lengths, *drawn) if reuse is None else draw(reuse, *drawn)
        rows += [_row(question, replica, lengths, c, requests, where) for c in choices if c.steps.seats]
    return tuple(rows)


def _row(
    question: TrafficQuery,
    replica: Replica,
    lengths: Lengths,
    choice: Choice,
    requests: Arrivals,
    where: dict[str, Any],
) -> TrafficRow:
    steps, spread, seed = choice.steps, question.acceptance_std, question.seed
    clients, cap = where["concurrency"], None
    if where["request_rate"] is not None:
        clients, cap = None, clients
    contexts = requests.input_tokens + requests.output_tokens / 2.0
    gains = gains_along(question, replica.scenario, steps.gamma, contexts)
    if gains is not None:
        requests = replace(requests, gain=gains / steps.tokens_per_iteration)
    met = replay(steps, lengths, question.limits, requests, clients, spread, seed, cap)
    return TrafficRow(
        **where,
        gamma=choice.gamma,
        running_mean=met.running,
        tpot_s=_percentiles(met.tpot_s[met.output_tokens > 1]),
        ttft_s=_percentiles(met.ttft_s),
        e2e_s=_percentiles(met.e2e_s),
        output_tokens_per_s=float(met.output_tokens.sum()) / met.duration_s,
        requests_per_s=met.ttft_s.size / met.duration_s,
        saturation_rate=capacity(steps, lengths, question.limits)[0],
        slo_share=_share(question, met) if question.limits_s else None,
        prefix_hit_rate=met.hit_rate,
        kv_share=min(met.running * steps.kv_share, 1.0),
        tokens_per_iteration=steps.tokens_per_iteration,
        warnings=(f"{met.preemptions} preemptions",) if met.preemptions else (),
    )


def _lengths_of(trace: Arrivals) -> Lengths:
    """Means and deviations, which passes are priced at."""
    prompts, outputs = trace.input_tokens.astype(float), trace.output_tokens.astype(float)
    return Lengths(prompts.mean(), max(outputs.mean(), LEAST_OUTPUT), prompts.std(), outputs.std())


def _percentiles(times: Array) -> Percentiles:
    if not times.size:
        return Percentiles(0.0, 0.0, 0.0, 0.0)
    return Percentiles(float(times.mean()), *map(float, np.quantile(times, (0.5, 0.9, 0.99))))


def _share(question: TrafficQuery, met: ReplayedRequests) -> float:
    times = {"ttft": met.ttft_s, "tpot": met.tpot_s, "e2e": met.e2e_s}
    within = [times[name] <= limit for name, limit in question.limits_s.items()]
    return float(np.all(within, axis=0).mean())
