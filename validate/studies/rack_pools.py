"""Compares predictions with published deployments of prefill and decode pools. The compared figures are the
throughput per GPU, the prefill rate, and the ratio of the pool sizes.
"""

from typing import Any

from perfmodel.answers.load.pool_prices import prompting_of, prompts_of
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pools import pools_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.speculation import Workload, predict
from perfmodel.validate.studies.rack_errors import RackError, width_of_steps
from perfmodel.validate.studies.rack_fit import RackConstants
from perfmodel.validate.studies.rack_rows import RackRow, row_of, scenario_of

LEAST_OUTPUT = 2
"""Smallest number of output tokens that a question may state. Prefill does not depend on this number."""
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
"""Arguments that both `whatif` and `traffic` have."""


def throughput_error(row: RackRow) -> RackError:
    """The error of the output tokens per second and device, for two pools under closed-loop clients.

    The prediction uses the acceptance that the source states, or else the acceptance of other published runs.
    No constant is fitted to these rows. The interval is that of a step.
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
        node_width=width_of_steps(scenario_of(row.row_id)),
        beyond_node=False,
    )


def _pools_question(row: RackRow) -> TrafficQuery:
    """The `traffic` question about the two pools of a row."""
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
    """The prefill pool of a row, as a value of `--prefill`."""
    return f"{row.prefill}:dp{row.prefill_dp},ep{row.prefill_ep}"


def prefill_error(row: RackRow, constants: RackConstants) -> RackError:
    """The error of the prompt tokens per second and device, for an instance that runs only prefill. No
    constant is fitted to these rows, and no answer states an interval for them.
    """
    predicted = prompt_tokens_per_s(row, constants)
    return RackError(row.row_id, row.source_id, "prefill", row.measured_tokens_per_s_gpu, predicted)


def ratio_error(row: RackRow, constants: RackConstants) -> RackError:
    """The error of the number of prefill devices that keep one decode device busy.

    The number is stated for requests with equal numbers of input and output tokens. Other lengths change the
    measured and the predicted number by the same factor.
    """
    prompts = row_of(row.prompts_by)
    iterations_per_s = 1e3 / row.measured_step_ms
    tokens_of_batch = (row.batch or 1) * (row.tokens_per_iteration or 1.0)
    decoded = tokens_of_batch * iterations_per_s / (row.tp or 1)
    measured = decoded / prompts.measured_tokens_per_s_gpu
    predicted = decoded_tokens_per_s(row, constants) / prompt_tokens_per_s(prompts, constants)
    return RackError(row.row_id, row.source_id, "ratio", measured, predicted)


def decoded_tokens_per_s(row: RackRow, constants: RackConstants) -> float:
    """The predicted output tokens per second and device, at the batch of the row."""
    scenario = constants.of_engine(row.engine).applied_to(scenario_of(row.row_id))
    batch = float(row.batch or 1)
    predicted = predict(scenario, Workload.of(batch, float(row.context or 0), row.gamma or 0))
    tokens_of_batch = batch * float(predicted.tokens_per_iteration)
    return tokens_of_batch / float(predicted.iteration_s) / (row.tp or 1)


def prompt_tokens_per_s(row: RackRow, constants: RackConstants) -> float:
    """The predicted prompt tokens per second and device, for an instance that runs only full prefill
    passes.
    """
    instance = _prefill(row)
    arguments: dict[str, Any] = row.question()
    arguments.pop("tokens_per_iteration", None)
    question = {name: arguments[name] for name in SHARED if name in arguments}
    if row.gamma:
        question |= {"draft": row.draft, "alpha": 0.5}  # prefill does not depend on the acceptance
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
    prompting = constants.of_engine(row.engine).applied_to(prompting_of(query, instances))
    each_s = prompts_of(query, instances, prompting, bool(row.gamma)).each_s
    return (row.input_len or 0) / each_s / instances.devices
