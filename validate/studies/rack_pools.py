"""Prefill and decode pools of published deployments next to predictions: throughput per GPU, prompt tokens
per second, and the ratio of the pools.
"""

import math
from typing import Any

from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pools import pools_of, prompting_of, prompts_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.speculation import Workload, predict
from perfmodel.validate.studies.rack_rows import (
    Constants,
    Judged,
    RackRow,
    row_of,
    scenario_of,
    width_of_steps,
)

LEAST_OUTPUT = 2
"""Output tokens of a question about prompts alone."""
KEPT = ("model", "hardware", "engine", "weights", "gamma", "tokens_per_iteration", "moe_imbalance", "overlap")
"""Arguments of a row that pools have too."""


def judged_throughput(row: RackRow) -> Judged:
    """Output tokens per second of a device under closed-loop clients, from the two pools.

    Its acceptance is as printed or published. Nothing of the pools is fitted to such rows; the interval is
    that of a step.
    """
    asked = row.question()
    groups = f":dp{row.prefill_dp},ep{row.prefill_ep}"
    pooled: dict[str, Any] = {
        "prefill": row.prefill + groups,
        "decode": f"{row.decode_instances}x{row.tp}:dp{row.dp},ep{row.ep}",
        "max_concurrency": row.clients,
        "input_len": row.input_len,
        "output_len": row.output_len,
        "draft": row.draft or "mtp",
    }
    question = TrafficQuery(**pooled, **{name: asked[name] for name in KEPT if name in asked})
    pools = pools_of(question)
    found = next(each for each in pools.rows if each.gamma == row.gamma)
    devices = pools.decode_gpus
    if row.throughput_of == "total GPU":
        devices += pools.prefill_gpus
    predicted = found.output_tokens_per_s / devices
    measured = row.tokens_per_s_gpu or math.nan
    own = width_of_steps(scenario_of(row.row_id))
    return Judged(row.row_id, row.source_id, "throughput", measured, predicted, own=own, beyond=False)


def has_pools(row: RackRow) -> bool:
    """Whether the row states both pools, its clients and its lengths."""
    stated = (row.prefill, row.clients, row.input_len, row.output_len, row.tokens_per_s_gpu, row.tp)
    return row.kind in ("step", "served") and all(stated)


def judged_prefill(row: RackRow, constants: Constants) -> Judged:
    """Prompt tokens per second of a device of an instance that only reads prompts. Nothing is fitted to such
    rows, and no answer states an interval of them.
    """
    measured = row.tokens_per_s_gpu or math.nan
    return Judged(row.row_id, row.source_id, "prefill", measured, prompt_tokens_per_s(row, constants))


def judged_ratio(row: RackRow, constants: Constants) -> Judged:
    """Prefill devices for each decode device at which both are as busy as in their own measurements, for as
    many output as input tokens. Other lengths change measured and predicted ratios alike.
    """
    prompts = row_of(row.prompts_by)
    iterations_per_s = 1e3 / (row.step_ms or math.nan)
    decoded = (row.batch or 1) * (row.tokens_per_iteration or 1.0) * iterations_per_s / (row.tp or 1)
    measured = decoded / (prompts.tokens_per_s_gpu or math.nan)
    predicted = decoded_tokens_per_s(row, constants) / prompt_tokens_per_s(prompts, constants)
    return Judged(row.row_id, row.source_id, "ratio", measured, predicted)


def decoded_tokens_per_s(row: RackRow, constants: Constants) -> float:
    """Predicted output tokens per second of a device at the batch of the row."""
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    batch = float(row.batch or 1)
    found = predict(scenario, Workload.of(batch, float(row.context or 0), row.gamma or 0))
    return batch * float(found.tokens_per_iteration) / float(found.iteration_s) / (row.tp or 1)


def prompt_tokens_per_s(row: RackRow, constants: Constants) -> float:
    """Predicted prompt tokens per second of a device that reads nothing else, in full passes."""
    asked = row.question()
    instance = f"{row.prefill}:dp{row.prefill_dp},ep{row.prefill_ep}"
    kept = {name: asked[name] for name in KEPT if name in asked and name != "tokens_per_iteration"}
    pooled: dict[str, Any] = {
        "prefill": instance,
        "decode": instance,
        "max_concurrency": 1,
        "input_len": row.input_len,
        "output_len": max(row.output_len or 0, LEAST_OUTPUT),
        "max_num_batched_tokens": row.pass_tokens,
    }
    if row.gamma:
        pooled |= {"draft": row.draft, "alpha": 0.5}  # no draft is accepted while prompts are read
    question = TrafficQuery(**kept, **pooled)
    read = Instances.of(instance, "--prefill")
    prompting = constants.of(prompting_of(question, read), row.engine)
    each_s = prompts_of(question, read, prompting, bool(row.gamma)).each_s
    return (row.input_len or 0) / each_s / read.devices
