"""Simulates served runs and compares the results with the published measurements.

The clients and the lengths of prompts and outputs are those of the run. The pass times are predicted. No
constant of a prediction was fitted to the run:

- The pass times use constants of engines that were fitted without the run.
- The costs of a request come from a fit without the run's study, or without the runs of this study at the
  same draft length (`HeldOutBy`).

The acceptance was measured in the run or, for DeepSeek-R1, in other published runs. Two inputs are assumed:
the number of InstructCoder's requests, and the spread of prompt lengths if the source does not state it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from perfmodel.answers.load.tpot_errors import served_log_errors
from perfmodel.answers.load.traffic_words import DEFAULT_STD
from perfmodel.answers.question import resolve
from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.load import Limits, Load
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.replay import replay
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.specs import load_gpu, serving_engines
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.speculation import Acceptance, Scenario, with_calibration
from perfmodel.speculation.accounts import account_of
from perfmodel.speculation.accounts.base import ServerSettings
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.studies.default_flags import DEFAULT_FLAGS
from perfmodel.validate.studies.engine_replay import recorded, steps_without
from perfmodel.validate.studies.fitted_constants import FittedConstants
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.measured_gaps import gaps
from perfmodel.validate.studies.published_engines import query_of, source_of
from perfmodel.validate.studies.served_runs import COOKBOOK, HeldOutBy, ServedRun

SEED = 1
"""Seed of the random arrivals and lengths."""
FRACTION = 0.9
"""Memory fraction: the default of vLLM in the measured releases, which is close to those of the other
engines.
"""
PLAIN = {"sglang.blackwell.expert_layer_s", "sglang.hopper.expert_layer_s"}
"""Costs of SGLang's default flags. SGLang's cookbook uses these flags, and its pages are the source of these
constants. A prediction of the cookbook's runs therefore uses vLLM's constant, which comes from other sources.
Both engines use Triton kernels for experts.
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison for one run.

    - ratios: figure -> predicted over measured value.
    - log_error: the standard deviation of the log error of TPOT that an answer states.
    """

    run: ServedRun
    ratios: dict[str, float]
    log_error: float


def shipped(run: ServedRun) -> Scenario:
    """The scenario of a run with the bundled constants and the measured acceptance."""
    engine = f"{run.engine}@{run.version}" if run.version else run.engine
    query = query_of(
        run,
        run.target,
        run.lengths.context,
        1,
        run.gamma,
        dp=run.tensor_parallel if run.data_parallel_attention else 1,
        draft=run.draft or "self",
        alpha=0.5,
        engine=engine,
        max_num_seqs=_default_seats(run),
    )
    gained = run.gained
    acceptance = Acceptance.from_tokens_per_iteration(gained, run.gamma) if gained else None
    return resolve(query, acceptance)


def _default_seats(run: ServedRun) -> int | None:
    """The largest number of sequences for which the server reserves memory; None if the engine has no
    default. No run states another number than the default.
    """
    seats = serving_engines()[run.engine].seats
    return None if seats is None else seats.of(run.version, load_gpu(run.hardware))


@cache
def scenario_of(run: ServedRun, by: HeldOutBy) -> Scenario:
    """The scenario of `shipped`, with constants of the engine that were fitted without the run.

    With `HeldOutBy.STUDY`, the fit leaves out the steps and ratios of the run's source. With
    `HeldOutBy.LENGTH`, it leaves out the ratios at the run's draft length. For a run without a draft, it
    leaves out the steps of the same model on the same devices.
    """
    record = recorded()
    ratio_folds = record["ratio_folds"]
    model = f"{run.engine} {run.target}"
    if by is HeldOutBy.STUDY:
        source = source_of(str(run.source))
        step: Mapping[str, float] | None = steps_without(source)
        ratio = ratio_folds["model"].get(source)
    else:
        device = f"{run.hardware} {run.tensor_parallel}"
        step = None if run.gamma else record["step_folds"]["seen"].get(f"{model} {device}")
        server = f"{run.target} {run.engine} {run.hardware} tp {run.tensor_parallel}"
        ratio = ratio_folds["seen"].get(f"{server} {run.draft} gamma {run.gamma}")
    parameters = (*DECODING, *SPECULATING)
    values = (step or record["steps"]) | (ratio or record["iteration"])
    if run.study == COOKBOOK:
        of_vllm = next(p.expected for p in DEFAULT_FLAGS if p.place == "vllm.hopper.expert_layer_s")
        parameters = (*parameters, *DEFAULT_FLAGS)
        values = values | dict.fromkeys(PLAIN, of_vllm)
    constants = FittedConstants.of(run.hardware, run.engine, run.version, parameters)
    return with_calibration(shipped(run), constants.calibration(values))


Folds = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Held-out group -> engine (or ``common``) -> the costs of a request, fitted without the group."""


@cache
def folds() -> Folds:
    """The content of ``results/requests.json``."""
    return dict(json.loads((BUNDLED / "requests.json").read_text(encoding="utf-8")))


def held_out(run: ServedRun, by: HeldOutBy) -> EngineRequests:
    """The costs of a request that were fitted without the run's held-out group."""
    return EngineRequests(**of_run(folds()[by.group_of(run)], run))


def of_run(fitted: Mapping[str, Any], run: ServedRun) -> Any:
    """The entry of a run in a mapping by engine. An entry for the engine on the run's GPU architecture has
    precedence over that of the engine, and the latter over ``common``.
    """
    return fitted.get(run.place) or fitted.get(run.engine, fitted["common"])


def limits_of(run: ServedRun, groups: int) -> Limits:
    """The limits of the run's server: the stated limits, or else the defaults of the engine.

    - groups: the number of data-parallel attention groups.
    """
    default = Limits()
    of_engine = account_of(run.engine, ServerSettings(run.version)).budget(load_gpu(run.hardware))
    budget = run.max_num_batched_tokens or of_engine or default.max_num_batched_tokens
    return Limits(
        groups * default.max_num_seqs,
        groups * budget,
        FRACTION,
        poll_passes=run.scheduler_recv_interval or default.poll_passes,
        balance_passes=run.attention_dp_timeout_iters or default.balance_passes,
    )


def compare(
    run: ServedRun, by: HeldOutBy, costs: EngineRequests | None = None, measured: bool = False
) -> Compared:
    """Simulates a run and compares it with the measurements.

    - costs: the costs of a request; by default those that were fitted without the run.
    - measured: whether to use the measured times of passes, if `gaps` has them. The errors are then only
      those of prefill and of queueing.
    """
    lengths = run.lengths
    scenario = scenario_of(run, by)
    limits = limits_of(run, scenario.target_shard.groups)
    (steps,) = step_times(scenario, lengths, limits, [run.gamma], costs or held_out(run, by))
    if measured and (seconds := gaps(run, steps.batches)) is not None:
        steps = replace(steps, decode_s=seconds)
    requests = arrivals(lengths, run.sent, run.request_rate, 1.0, SEED)
    published = request_constants().acceptance_std.get(run.target)
    spread = published.value if published else DEFAULT_STD
    replayed = replay(steps, lengths, limits, requests, run.concurrency, spread, SEED)
    ratios = {}
    for name, predicted in _figures_of(run, replayed).items():
        if published_figure := run.measured(name):
            ratios[name] = float(predicted / published_figure)
    clients = np.array([float(run.concurrency)])
    closed_form = serve(steps, Load(lengths, clients=clients), limits, spread)
    tpot_ms = 1e3 * np.asarray(closed_form.tpot.mean).item()
    ratios["closed_form"] = tpot_ms / run.measured("tpot_mean_ms")
    return Compared(run, ratios, _stated(run))


def _figures_of(run: ServedRun, replayed: ReplayedRequests) -> dict[str, float]:
    """The figures of a simulation, with the names and units of the published figures."""
    figures = {
        "tpot_mean_ms": 1e3 * replayed.tpot_s.mean(),
        "tpot_p99_ms": 1e3 * np.quantile(replayed.tpot_s, 0.99),
        "output_tokens_per_s": replayed.output_tokens.sum() / replayed.duration_s,
    }
    # SGLang's cookbook repeats benchmarks with the same prompts, and does not state whether they were cached
    if run.study != COOKBOOK:
        typical = np.mean if "mean" in run.ttft else np.median
        figures["ttft_mean_ms"] = 1e3 * typical(replayed.ttft_s)
        figures["ttft_p99_ms"] = 1e3 * np.quantile(replayed.ttft_s, 0.99)
    return figures


@cache
def _stated(run: ServedRun) -> float:
    """See `Compared.log_error`."""
    by_length = served_log_errors(shipped(run), round(run.batch), run.lengths.context, [run.gamma])
    log_error = by_length[run.gamma]
    assert log_error is not None
    return log_error
