"""Compares published deployments of prefill and decode pools with predictions: the throughput per GPU, the
prompt tokens per second, and the ratio of the pool sizes.
"""

from typing import Any

from perfmodel.answers.load.pool_prices import prompting_of, prompts_of
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pools import pools_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.speculation import Workload, predict
from perfmodel.validate.studies.rack_rows import (
    FoldConstants,
    RackError,
    RackRow,
    row_of,
    scenario_of,
    width_of_steps,
)

LEAST_OUTPUT = 2
"""Output tokens of a question about prompts alone."""
SHARED = (
    "model",
    "hardware",
    "engine",
    "weights",
    "gamma",
    "tokens_per_iteration",
    "moe_imbalance",
    "overlap",
)
"""Arguments of a row's question that a question about pools has too."""


def throughput_error(row: RackRow) -> RackError:
    """The error of the output tokens per second of a device, for two pools under closed-loop clients.

    The prediction uses the printed or published acceptance. No constant of pools is fitted to such rows. The
    interval is that of a step.
    """
    pools = pools_of(_pools_question(row))
    predicted = next(of_length for of_length in pools.rows if of_length.gamma == row.gamma)
    devices = pools.decode_gpus
    if row.throughput_of == "total GPU":
        devices += pools.prefill_gpus
    return RackError(
        row.row_id,
        row.source_id,
        "throughput",
        measured=row.measured_tokens_per_s_gpu,
        predicted=predicted.output_tokens_per_s / devices,
        box_width=width_of_steps(scenario_of(row.row_id)),
        beyond_box=False,
    )


def _pools_question(row: RackRow) -> TrafficQuery:
    """The question about the two pools of a row."""
    arguments: dict[str, Any] = row.question()
    shared = {name: arguments[name] for name in SHARED if name in arguments}
    return TrafficQuery(
        prefill=_prefill(row),
        decode=f"{row.decode_instances}x{row.tp}:dp{row.dp},ep{row.ep}",
        max_concurrency=row.clients,
        input_len=row.input_len,
        output_len=row.output_len,
        draft=row.draft or "mtp",
        **shared,
    )


def _prefill(row: RackRow) -> str:
    """The prefill instances of a row, as a value of `--prefill`."""
    return f"{row.prefill}:dp{row.prefill_dp},ep{row.prefill_ep}"


def prefill_error(row: RackRow, constants: FoldConstants) -> RackError:
    """The error of the prompt tokens per second of a device, for an instance that only reads prompts. No
    constant is fitted to such rows, and no answer states an interval for them.
    """
    predicted = prompt_tokens_per_s(row, constants)
    return RackError(row.row_id, row.source_id, "prefill", row.measured_tokens_per_s_gpu, predicted)


def ratio_error(row: RackRow, constants: FoldConstants) -> RackError:
    """The error of the number of prefill devices per decode device at which both are as busy as in their own
    measurements. It assumes that requests have as many output tokens as input tokens. Other lengths change
    the measured and the predicted ratio by the same factor.
    """
    prompts = row_of(row.prompts_by)
    iterations_per_s = 1e3 / row.measured_step_ms
    tokens_per_iteration = (row.batch or 1) * (row.tokens_per_iteration or 1.0)
    decoded = tokens_per_iteration * iterations_per_s / (row.tp or 1)
    measured = decoded / prompts.measured_tokens_per_s_gpu
    predicted = decoded_tokens_per_s(row, constants) / prompt_tokens_per_s(prompts, constants)
    return RackError(row.row_id, row.source_id, "ratio", measured, predicted)


def decoded_tokens_per_s(row: RackRow, constants: FoldConstants) -> float:
    """The predicted output tokens per second of a device, at the batch of the row."""
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    batch = float(row.batch or 1)
    predicted = predict(scenario, Workload.of(batch, float(row.context or 0), row.gamma or 0))
    tokens_per_iteration = batch * float(predicted.tokens_per_iteration)
    return tokens_per_iteration / float(predicted.iteration_s) / (row.tp or 1)


def prompt_tokens_per_s(row: RackRow, constants: FoldConstants) -> float:
    """The predicted prompt tokens per second of a device that only reads prompts, in full passes."""
    instance = _prefill(row)
    arguments: dict[str, Any] = row.question()
    arguments.pop("tokens_per_iteration", None)
    question = {name: arguments[name] for name in SHARED if name in arguments}
    if row.gamma:
        question |= {"draft": row.draft, "alpha": 0.5}  # no draft is accepted while prompts are read
    query = TrafficQuery(
        prefill=instance,
        decode=instance,
        max_concurrency=1,
        input_len=row.input_len,
        output_len=max(row.output_len or 0, LEAST_OUTPUT),
        max_num_batched_tokens=row.pass_tokens,
        **question,
    )
    instances = Instances.of(instance, "--prefill")
    prompting = constants.of(prompting_of(query, instances), row.engine)
    each_s = prompts_of(query, instances, prompting, bool(row.gamma)).each_s
    return (row.input_len or 0) / each_s / instances.devices
