"""Warnings about a question, for all commands. Some say why a computed answer may be meaningless or
uncertain. Others report a known defect of the engine. Answers print the warnings in the order in which
`common_doubts` collects them.

Each function `of_...` yields the warnings about one part of the question. `device_caveats` has the warnings
about the device.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from perfmodel.answers.question.arguments import SELF_DRAFT_KV
from perfmodel.answers.question.defects import defect_warning, known_defects
from perfmodel.answers.question.device_caveats import of_cooling, of_device, of_gpu_limit, of_power_limit
from perfmodel.answers.question.engine_support import runs_in
from perfmodel.answers.question.named import conversion_of
from perfmodel.answers.question.published_format import undivided
from perfmodel.answers.question.query import CommonOptions, Options
from perfmodel.answers.question.racks import rack_doubts
from perfmodel.answers.question.smaller_batch import of_batch
from perfmodel.answers.text import Note, context_text, counted
from perfmodel.specs import (
    ENGINES,
    engine_of,
    is_gguf,
    served_id,
    serving_engines,
)
from perfmodel.specs.acceptance.acceptance_library import SHORT_TOKENS
from perfmodel.specs.boundary import files
from perfmodel.specs.calibrations.engine_words import MLX
from perfmodel.specs.models.conversions import Conversion
from perfmodel.specs.models.ggml import plain_of
from perfmodel.specs.models.gguf_names import gguf_repository
from perfmodel.specs.models.loading import named_format
from perfmodel.specs.models.mlx import of_bits
from perfmodel.specs.models.names import only_size
from perfmodel.specs.models.variants import name_of
from perfmodel.speculation import (
    Memory,
    Scenario,
    is_beyond_measured_context,
    memory_of,
)
from perfmodel.speculation.acceptance import BEYOND_MEASURED

SMALLEST_BUDGET = 512
"""The smallest KV budget of a published acceptance (results/published), in tokens."""
TINY_BUDGET = 64
"""A KV budget far below `SMALLEST_BUDGET`, in tokens."""
STRETCHED = math.log(3)
"""A warning is given if gamma + 1 differs by more than a factor of 3 from the gamma + 1 at which the
acceptance was measured. `Acceptance.log_distance` is the logarithm of this factor.
"""


class Shown(NamedTuple):
    """Whether an answer shows times of a draft, anything that depends on an acceptance, and intervals. An
    answer has no warnings about anything that it does not show.
    """

    draft: bool = True
    acceptance: bool = True
    interval: bool = True


ALL_SHOWN = Shown()
NO_INTERVAL = Shown(interval=False)


def doubts(
    question: CommonOptions,
    scenario: Scenario,
    batch: float,
    context: float,
    gamma: int,
    room: Memory[float] | None = None,
    shown: Shown = ALL_SHOWN,
) -> tuple[str, ...]:
    """The warnings of `common_doubts`, and a warning if the engine does not run the draft. This function is
    for answers that do not say elsewhere whether the engine runs the draft.
    """
    runs = runs_in(engine_of(scenario.machine.calibration), scenario.draft, question.engine)
    notes = common_doubts(question, scenario, batch, context, gamma, room, shown)
    drafts = gamma > 0 and shown.draft
    if drafts and runs is not None and not runs.runs:
        return (*notes, f"this engine cannot run the draft: {runs.text}")
    return notes


def common_doubts(
    question: CommonOptions,
    scenario: Scenario,
    batch: float,
    context: float,
    gamma: int,
    room: Memory[float] | None = None,
    shown: Shown = ALL_SHOWN,
) -> tuple[str, ...]:
    """Warnings about assumptions, context length, memory, draft, acceptance, engine, constants and device.

    - room: the memory at this point, if it was computed already.
    """
    room = room or memory_of(scenario, batch, context, gamma, question.memory_fraction).single()
    drafts = shown.draft and (gamma or getattr(question, "gamma", 0) is None)
    sentences: list[str] = []
    if drafts and isinstance(question, Options):
        sentences += assumed(question, scenario)
    conversion = conversion_of(scenario.machine.calibration)
    if conversion is not None:
        sentences += of_weights(question, scenario, conversion)
    if question.weights is None:
        sentences += by_name(question.model)
    elif conversion is None:
        sentences += of_blocks(question, scenario)
    if (sized := only_size(question.model)) is not None:
        sentences.append(Note(f"{question.model} means {sized}, the only size that is bundled"))
    sentences += beyond(question.model, scenario, context, gamma)
    sentences += rack_doubts(question, scenario, batch, gamma)
    sentences += room.shortage(batch)
    if not room.fits:
        sentences += of_gpu_limit(scenario.machine.gpu, room.missing_bytes)
    sentences += of_batch(scenario, batch, context)
    if gamma and shown.acceptance:
        sentences += of_acceptance(scenario, context, gamma, shown.interval)
    if drafts:
        sentences += of_draft(scenario, context)
    if gamma:
        sentences += map(defect_warning, known_defects(scenario, context, gamma))
        sentences += of_other_kernels(scenario)
    sentences += without_effect(question, scenario)
    if question.calibration is not None and files.looks_like_path(question.calibration):
        from perfmodel.answers.question.far_constants import far_constants  # only for a file of the user

        sentences += far_constants(scenario.machine.calibration)
    sentences += of_device(scenario)
    sentences += of_cooling(question.hardware)
    sentences += of_power_limit(question, scenario)
    return tuple(sentences)


def assumed(question: Options, scenario: Scenario) -> Iterator[str]:
    """Notes about a draft or KV method that is assumed because the question does not state it."""
    drafts_itself = scenario.draft.kind == "self"
    if question.draft is None and not drafts_itself:
        yield Note(f"no draft was given: {scenario.draft.name} is assumed")
    if drafts_itself and getattr(question, "draft_kv", None) is None:
        yield Note(f"no draft_kv was given: {SELF_DRAFT_KV} is assumed")


def of_other_kernels(scenario: Scenario) -> Iterator[str]:
    """A warning if another engine for this device has special kernels for GEMMs with few rows. Verification
    uses such GEMMs.
    """
    asked = serving_engines().get(scenario.machine.calibration.stack)
    vendor = scenario.machine.gpu.vendor
    for word, engine in serving_engines().items():
        has_row_kernels = engine.row_kernels is not None and engine.makers == (vendor,)
        if has_row_kernels and asked is not None and asked.conversion != engine.conversion:
            yield f"{engine.title} has other kernels for a few rows (--engine {word})"


def of_blocks(question: CommonOptions, scenario: Scenario) -> Iterator[str]:
    """A warning if the published checkpoint has FP8 blocks that this number of devices would split."""
    repository = served_id(question.model)
    why = None if repository is None else undivided(repository, scenario)
    if why is not None and getattr(question, "model_path", None) is None:
        yield f"{why}. Here they are quantised on load; advise --gpus finds layouts of the checkpoint"


def without_effect(question: CommonOptions, scenario: Scenario) -> Iterator[str]:
    """Warnings about stated arguments that have no effect on the answer."""
    no_effect = "has no effect:"
    target = scenario.target.name
    shard = scenario.target_shard
    draft = scenario.draft
    calibration = scenario.machine.calibration
    if question.context_std and not calibration.multiprocessor_bandwidth.value:
        yield f"--context-std {no_effect} {calibration.name} has no such cost"
    if question.topk_reuse and not any(a.topk for a in shard.attentions):
        yield f"--topk-reuse {no_effect} {target} is not sparse"
    if question.state_rollback != "keep" and not shard.states:
        yield f"--state-rollback {no_effect} {target} is not recurrent"
    if question.state_dtype is not None and not shard.states:
        yield f"--state-dtype {no_effect} {target} is not recurrent"
    if question.draft_weights and not draft.passes(1.0):
        yield f"--draft-weights {no_effect} {draft.name} has no weights"
    if question.draft_kv_dtype and not draft.reads_cache:
        yield f"--draft-kv-dtype {no_effect} {draft.name} reads no cache"


def of_weights(question: CommonOptions, scenario: Scenario, conversion: Conversion) -> Iterator[str]:
    """Warnings about weight formats and about weights in host memory. If the engine converts checkpoints and
    the question states no format, the format is assumed.
    """
    weights = question.weights
    repository = gguf_repository(question.model)
    stated = repository.mix if repository else is_gguf(question.model) or named_format(question.model)
    if weights is None and not stated:
        yield Note(f"no weights were given: {scenario.target.weights} is assumed, {conversion.why}")
    used = weights and conversion.named(weights, False)
    if used != weights:
        engine = ENGINES[scenario.machine.calibration.stack]
        mlx = serving_engines()[MLX]
        runs_mlx = scenario.machine.gpu.vendor in mlx.makers and of_bits(weights or "")
        other = f"; {mlx.title} has them (--engine {MLX})" if runs_mlx else ""
        yield f"{engine} has no {weights} weights: the answer uses {used}{other}"
    mix = weights or (repository and repository.mix) or ""
    if plain_mix := plain_of(mix.strip().lower()):
        yield (
            f"{mix} differs between files: the answer assumes {plain_mix}; --model FILE.gguf or the mean of "
            "the file (--weights 4.9bpw) is exact"
        )
    if scenario.machine.host_experts or scenario.machine.host_layers:
        yield (
            "the times of layers and experts on the host are fitted to two runs of one repository, and no "
            "interval covers their error"
        )


def by_name(model: str) -> Iterator[str]:
    """A warning if the weight format is only known from the name of the checkpoint."""
    if form := named_format(model):
        yield f"{form} weights are assumed from the name {model}; --model PATH of its config.json is exact"


def beyond(model: str, scenario: Scenario, context: float, gamma: int) -> Iterator[str]:
    """A warning for each model (target or draft) whose maximum context is too short for this question.

    - model: the name of the target in the question.
    """
    target = scenario.target
    limits = {name_of(model, target): target.max_position_embeddings}
    if gamma and scenario.draft.model.name != target.name:
        limits[scenario.draft.model.name] = scenario.draft.model.max_position_embeddings
    for name, most in limits.items():
        if context + gamma + 1 > most:
            yield f"context {context_text(context)} (+{gamma + 1}) is beyond {name}'s maximum of {most}"


def of_acceptance(scenario: Scenario, context: float, gamma: int, has_interval: bool = True) -> Iterator[str]:
    """Warnings about an acceptance that is 1, that was measured at another draft length, or that was only
    measured at shorter contexts. There is also a note if the acceptance limits the draft length.

    - has_interval: whether the answer has an interval, which is then wider at a longer context.
    """
    known = scenario.acceptance
    if known is None:
        return
    if float(known.tokens_per_iteration(gamma)) == gamma + 1:
        yield "every drafted token is accepted (acceptance 1): the answer is the best case"
    if float(known.log_distance(gamma)) > STRETCHED and known.alpha != 0:
        nearest = min(
            known.measured_at, key=lambda m: float(known.replace(measured_at=(m,)).log_distance(gamma))
        )
        yield (
            f"the acceptance was measured at {counted(f'{nearest:.0f}', 'drafted token')} and is used "
            f"for {gamma}; later positions usually accept less: give rates by position (--rate, --acceptance)"
        )
    if known.measured_to is not None and gamma == known.max_gamma:
        positions = "position" if known.measured_to == 1 else f"{known.measured_to} positions"
        yield Note(
            f"gamma {gamma} is the largest in this search, {BEYOND_MEASURED} more than the {positions} at "
            "which the acceptance was measured; for longer drafts give more rates by position (--rate, "
            "--acceptance)"
        )
    if is_beyond_measured_context(scenario, context):
        wider = ", so the interval is wider" if has_interval else ""
        yield f"{_of_longer_context(known.measured_context, context)}{wider}"


def _of_longer_context(longest: float | None, context: float) -> str:
    """The warning about a context beyond the longest one at which the acceptance was measured."""
    if longest is None or longest == SHORT_TOKENS:
        return (
            f"the acceptance was published for short prompts; at {context_text(context)} tokens it may be "
            "lower"
        )
    return (
        f"the acceptance was measured at up to {longest:.0f} tokens; at {context_text(context)} tokens it "
        "may be lower"
    )


def of_draft(scenario: Scenario, context: float) -> Iterator[str]:
    """Warnings about a draft whose KV budget is very small or not below the context, or that runs on fewer
    devices than the target. There are also warnings about a draft model with another vocabulary size, or as
    large as the target.
    """
    draft = scenario.draft
    target = scenario.target
    if (budget := draft.kv.budget) is not None and budget >= context:
        yield f"KV budget {budget} is not below the context: the draft reads the full cache"
    elif budget is not None and budget < TINY_BUDGET:
        yield (
            f"KV budget {budget}: published acceptances have budgets of {SMALLEST_BUDGET} or more, so the "
            "acceptance may be lower"
        )
    if draft.tensor_parallel < (tp := scenario.machine.tensor_parallel) and not draft.views_target_cache:
        yield f"the draft runs on {draft.tensor_parallel} of {tp} devices"
    if not draft.named_model:
        return
    model = draft.model
    if model.vocab_size != target.vocab_size:
        yield f"{model.name} has {model.vocab_size} vocabulary entries, {target.name} {target.vocab_size}"
    if model.total_params >= target.total_params:
        small, large = (f"{m.name} ({m.total_params / 1e9:.2f} B parameters)" for m in (model, target))
        yield f"draft {small} is not smaller than its target {large}"
