"""A configuration in an answer of `advise`: its layout, draft, batch and speed."""

import math
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout, Simplicity
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.served_target import longest_of
from perfmodel.answers.token_price import dollars_per_million_tokens
from perfmodel.speculation import (
    KVCapacity,
    Passes,
    Scenario,
    acceptance_log_error,
    interval_of,
    iteration_log_error,
    kv_cache_of,
    ratio_log_error,
    step_log_error,
)


@dataclass(frozen=True, slots=True)
class Pick:
    """A configuration with its predicted speed.

    - gpus: number of GPUs of all `replicas` equal servers, including idle GPUs.
    - tp: number of GPUs of one server.
    - dp, ep: number of its attention groups and of its expert groups.
    - layer_split: number of devices among which its layers are divided.
    - draft, draft_kv, draft_tp: the draft; None for the baseline.
    - batch, tpot_s, throughput_tokens_per_s: values of one server. Under a load, the batch is the mean number
      of running requests.
    - tpot_interval: the 90 % interval of `tpot_s`; None if no error of the calibration is known.
    - all_servers_tokens_per_s: throughput of all replicas.
    - throughput_tokens_per_s_per_device: throughput of all replicas divided by `gpus`.
    - acceptance_log_error: standard deviation of ln(tokens per iteration), a part of `tpot_interval`; 0 for
      the baseline.
    - runs_in: the engines and versions that run the draft, in words; None for the baseline and for research
      code.
    - measured_context_tokens: the longest context at which the acceptance was measured. None means that this
      context is unknown, or that the acceptance is valid at every context.
    - speedup: speedup over the baseline at the same batch and layout.
    - objective: the value of the objective.
    - joules_per_token: energy per token; None if the power of the device was not measured.
    - power_w: mean power of one device; None if it was not measured.
    - kv_cache: the size of the KV cache of one server, as the server logs it when it starts.
    - ttft_s: mean time to first token; None without a load.
    - slo_share: share of requests within the latency limits; None without limits.
    - load_share: the request rate divided by the saturation rate; None without a load.
    - estimated: whether the values under a load come from the closed form although it may be inaccurate at
      this load. Only layouts that cannot be the best are not simulated.
    """

    hardware: str
    layout: str
    gpus: int
    replicas: int
    tp: int
    dp: int
    ep: int
    layer_split: int
    draft: str | None
    draft_kv: str | None
    draft_tp: int | None
    gamma: int
    batch: int
    tpot_s: float
    throughput_tokens_per_s: float
    throughput_tokens_per_s_per_device: float
    all_servers_tokens_per_s: float
    cost_per_million_tokens: float | None
    speedup: float
    tokens_per_iteration: float
    acceptance_source: str | None
    measured_context_tokens: float | None
    runs_in: str | None
    objective: float
    joules_per_token: float | None
    power_w: float | None
    kv_cache: KVCapacity
    ttft_s: float | None = None
    slo_share: float | None = None
    load_share: float | None = None
    estimated: bool = False
    tpot_interval: tuple[float, float] | None = None
    acceptance_log_error: float = 0.0

    @property
    def simplicity(self) -> Simplicity:
        """See `Layout.simplicity`."""
        return Layout(self.gpus, self.replicas, self.tp, self.dp, self.ep, self.layer_split).simplicity


def pick_of(point: PricedPoint, query: AdviseQuery, seats: int | None = None) -> Pick:
    """The configuration of a point.

    - seats: largest number of requests that the server may run at once; None means the batch of the point.
    """
    s = point.candidate.scenario
    layout = point.layout
    runs = point.candidate.runs
    context = float(query.context)
    baseline_s = float(s.target_pass_s(float(point.batch), context))
    throughput = point.batch / point.tpot_s
    all_servers = layout.replicas * throughput
    cost = None
    if query.dollars is not None:
        cost = dollars_per_million_tokens(query.dollars, layout.gpus, all_servers)
    energy = Passes(s, float(point.batch), context, np.array([point.gamma])).energy(s)
    objective = point.value if query.objective == "throughput" else -point.value
    at_once = float(seats or point.batch)
    kv_cache = kv_cache_of(_as_started(s, query, point.gamma), point.gamma, query.memory_fraction, at_once)
    pick = Pick(
        hardware=query.hardware,
        layout=layout.label(),
        gpus=layout.gpus,
        replicas=layout.replicas,
        tp=layout.server_gpus,
        dp=layout.dp,
        ep=layout.ep,
        layer_split=layout.in_turn,
        draft=None,
        draft_kv=None,
        draft_tp=None,
        gamma=point.gamma,
        batch=point.batch,
        tpot_s=point.tpot_s,
        throughput_tokens_per_s=throughput,
        throughput_tokens_per_s_per_device=all_servers / layout.gpus,
        all_servers_tokens_per_s=all_servers,
        cost_per_million_tokens=cost,
        speedup=baseline_s / point.tpot_s,
        tokens_per_iteration=point.gained,
        acceptance_source=None,
        measured_context_tokens=None,
        runs_in=None,
        objective=objective,
        joules_per_token=energy.get("joules_per_token"),
        power_w=energy.get("power_w"),
        kv_cache=kv_cache,
        tpot_interval=point_tpot_interval(query, point),
    )
    if not point.gamma:
        return pick
    return replace(
        pick,
        draft=s.draft.name,
        draft_kv=s.draft.kv.label(),
        draft_tp=s.draft.tensor_parallel,
        acceptance_source=s.known_acceptance.source,
        measured_context_tokens=s.known_acceptance.measured_context,
        runs_in=None if runs is None else runs.text,
        acceptance_log_error=_acceptance_log_error(point),
    )


def point_tpot_interval(query: AdviseQuery, point: PricedPoint) -> tuple[float, float] | None:
    """The 90 % interval of the TPOT of a point. It has the error of a step, and with a draft also those of an
    iteration and of the acceptance. The result is None if no error of the calibration is known.
    """
    s = point.candidate.scenario
    batch, context = float(point.batch), float(query.context)
    step_s = s.target_step_at(batch, context, 1.0)
    error = step_log_error(s, step_s, batch, context)
    if error is None:
        return None
    off = float(error)
    if point.gamma:
        passes = Passes(s, batch, context, np.array([point.gamma]))
        ratio = point.tpot_s * point.gained / float(step_s.predicted_s)
        iteration = iteration_log_error(s, off, ratio_log_error(s, passes, ratio) or 0.0)
        off = math.hypot(iteration, _acceptance_log_error(point))
    return interval_of(point.tpot_s, off)


def _acceptance_log_error(point: PricedPoint) -> float:
    """Standard deviation of ln(tokens per iteration) of a point with a draft."""
    return float(np.ravel(acceptance_log_error(point.candidate.scenario, point.gamma))[0])


def _as_started(scenario: Scenario, query: AdviseQuery, gamma: int) -> Scenario:
    """The scenario on a server with the maximum sequence length of its printed command line."""
    longest = longest_of(query, scenario)(int(query.context), 1, gamma)
    account = scenario.account
    return scenario.on_same_shards(
        account=account.replace(server=account.server.replace(max_model_len=longest))
    )
