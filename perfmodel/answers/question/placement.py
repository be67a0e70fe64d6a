"""Checks whether a model can be divided over devices as the question says, and whether the engine supports
it. Error messages name the allowed values.
"""

from pathlib import Path

from perfmodel.costs import check_tensor_parallel
from perfmodel.drafts import kind_of, spelled
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.specs import (
    WEIGHT_FORMATS,
    Calibration,
    GPUSpec,
    ModelSpec,
    Precision,
    attention_of,
    engine_of,
    release,
    serving_engines,
)

BLOCK = 128
"""Width of a block of weights that share a scale in `fp8-block`. No engine splits a block (vLLM,
quantization/fp8.py).
"""
_PARTS = {"mlp": "dense MLPs", "experts": "experts", "shared": "shared experts"}
"""Part of a model with its own weight format -> its words."""


def check_head(word: str | None, target: ModelSpec) -> None:
    """Raises InputError for the draft ``mtp`` without options if the target has no known MTP layer."""
    if spelled((word or "").strip()) == "mtp" and not kind_of("mtp").suits(target):
        raise refuse(
            "--draft",
            None,
            f"a draft other than mtp: {target.name} has no known multi-token prediction layer "
            "(mtp:modules=1 if your checkpoint has one)",
            word,
        )


def check_vocabulary(engine: str | None, draft: Draft, target: ModelSpec) -> None:
    """Raises InputError for a draft model if the size of its vocabulary differs from the target's by more
    than the engine allows.
    """
    known = serving_engines().get(engine or "")
    served = known.drafts.get(draft.kind) if known else None
    if known is None or served is None or served.vocabulary_difference is None:
        return
    entries = draft.model.vocab_size
    allowed = served.vocabulary_difference
    if abs(entries - target.vocab_size) <= allowed:
        return
    within = f", or up to {allowed} more or fewer" if allowed else ""
    raise refuse(
        "--draft",
        None,
        f"a model with the {target.vocab_size} vocabulary entries of {target.name}{within}, to run in "
        f"{known.title}",
        f"{draft.name} with {entries}",
    )


def typed(tp: int, dp: int, ep: int) -> str:
    """How to ask for attention groups of `tp` devices each, in parentheses; empty if there is no such layout.
    Engines such as vLLM count these devices, and `--tp` counts all devices of a server.
    """
    if dp == 1 or tp * dp % ep:
        return ""
    experts = (f" EP {ep}", f" --ep {ep}") if ep > 1 else ("", "")
    return f" (TP {tp} DP {dp}{experts[0]} is --tp {tp * dp} --dp {dp}{experts[1]})"


def check_groups(model: ModelSpec, tp: int, ep: int, dp: int, redundant: int = 0) -> None:
    """Raises InputError for impossible parallel groups. The number of groups must divide the devices, and the
    experts if the groups are expert-parallel. The devices of an attention group must divide the query heads.

    - redundant: number of additional copies of experts.
    """
    for flag, groups in (("--ep", ep), ("--dp", dp)):
        if groups > 1 and not model.moe:
            raise refuse(flag, None, f"1 for {model.name}, which has no routed experts", groups)
        if tp % groups:
            whole = f", all devices of a server{typed(tp, dp, ep)}" if dp > 1 else ""
            raise refuse(flag, None, f"a divisor of --tp {tp}{whole}", groups)
    if model.moe and (slots := model.moe.num_experts + redundant) % ep:
        copies = f" and --redundant-experts {redundant}" if redundant else "; see --redundant-experts"
        raise refuse("--ep", None, f"a divisor of the {slots} experts of {model.name}{copies}", ep)
    check_tensor_parallel(model, tp // dp)


def check_engine_groups(engine: str | None, ep: int, dp: int) -> None:
    """Raises InputError for expert-parallel or data-parallel groups if the engine has no such groups."""
    known = serving_engines().get(engine or "")
    if known is None or known.runs_groups:
        return
    for flag, groups in (("--ep", ep), ("--dp", dp)):
        if groups > 1:
            raise refuse(flag, None, f"1 for {known.title}, which has no such groups", groups)


def check_parts(flag: str, weights: str | None, model: ModelSpec) -> None:
    """Raises InputError if the question states a format of routed experts (``experts=``) for a model without
    experts.
    """
    if "experts=" in (weights or "") and not model.moe:
        raise refuse(flag, None, f"one without experts= for {model.name}, which has no experts", weights)


def check_backend(name: str | None, calibration: Calibration, gpu: GPUSpec, model: ModelSpec) -> None:
    """Raises InputError for an attention backend that cannot run the model. Some backends need a model with a
    latent cache (MLA), and some do not support attention sinks on this device.
    """
    engine = attention_of(calibration.stack)
    names = engine.named(name or "") if engine else []
    if not engine or not names:
        return
    backend = engine.backends[names[0]]
    if backend.runs(gpu.architecture, model.head):
        return
    why = "has no latent cache" if backend.latent_only else f"has attention sinks, on {gpu.name}"
    raise refuse("--attention-backend", None, f"one for {model.name}, which {why}", name)


def cuts_heads(engine: str | None) -> bool:
    """Whether tensor parallelism in this engine gives each device whole KV heads."""
    known = serving_engines().get(engine or "")
    return known is not None and known.cuts_heads


def check_engine(
    calibration: Calibration,
    gpu: GPUSpec,
    model: ModelSpec,
    precision: Precision,
    tp: int,
    ep: int,
    dp: int,
    asked: str | None = None,
) -> None:
    """Raises InputError for a configuration with which the engine does not start. The data file of the engine
    decides this (`specs.engines.serving.ServingEngine`).

    - asked: the calibration as the question names it, for the error message.
    """
    stack = engine_of(calibration)
    if stack not in serving_engines():
        return
    makers = serving_engines()[stack].makers
    if gpu.vendor not in makers and any(gpu.vendor in other.makers for other in serving_engines().values()):
        raise refuse(
            "--engine",
            None,
            f"one that runs on {gpu.vendor} ({stack}: {', '.join(makers)})",
            f"{stack} ({Path(asked).name})" if asked else stack,
        )
    if not cuts_heads(stack):
        return
    _check_integers(calibration, gpu, model, precision)
    attends = tp // dp
    heads = model.num_key_value_heads
    if not model.mla and max(heads, attends) % min(heads, attends):
        fits = [n for n in range(1, model.num_attention_heads + 1) if max(heads, n) % min(heads, n) == 0]
        fits = [n for n in fits if model.num_attention_heads % n == 0]
        raise InputError(
            f"--tp: {stack} needs KV heads that divide evenly: {model.name} has {heads} (one of "
            f"{', '.join(map(str, fits))}), given {attends}"
        )
    check_blocks(model, precision, tp, ep, dp)


def _check_integers(calibration: Calibration, gpu: GPUSpec, model: ModelSpec, precision: Precision) -> None:
    """Raises InputError for weights in 4-bit integers if the engine has no fast kernels for them in this
    version or on this device.
    """
    stack = engine_of(calibration) or ""  # the caller knows that it is a serving engine
    engine = serving_engines()[stack]
    weights = precision.weights
    experts = model.moe is not None and weights.of("experts").name.startswith("int4")
    awq = any(part.name.startswith("awq") for part in (weights.base, *weights.by_part().values()))
    for found, first, what in ((experts, engine.int4_experts, "int4 experts"), (awq, engine.awq, "AWQ")):
        if found and first and release(calibration.version) < release(first):
            raise refuse(
                "--engine",
                f"{stack} with {what}",
                f"{first} or later: no fast kernels before",
                calibration.version,
            )
    makers = engine.int4_experts_on
    if experts and makers and gpu.vendor not in makers:
        raise refuse(
            "--hardware",
            f"{stack} with int4 experts",
            f"of {', '.join(makers)}: elsewhere slow Triton kernels run them, whose time is not predicted "
            "(35.6 ms per token for Kimi-K2.5 in SGLang on 4 MI350X); --weights mxfp4 or fp8 has kernels",
            gpu.name,
        )


def check_blocks(model: ModelSpec, precision: Precision, tp: int, ep: int, dp: int) -> None:
    """Raises InputError for parallel degrees that would split the blocks of an FP8 format between devices.

    vLLM checks the width of every divided matrix (quantization/utils/fp8_utils.py of 0.32,
    `validate_fp8_block_shape` and `validate_fp8_block_shape_moe`).
    """
    attends = tp // dp
    widths: dict[str, tuple[int, int]] = {}
    if model.moe:
        widths["experts"] = (model.moe.intermediate_size, tp // ep)
        widths["shared"] = (model.moe.shared_intermediate_size, attends)
    if model.num_dense_layers:
        widths["mlp"] = (model.intermediate_size, attends)
    for part, (width, cut) in widths.items():
        in_blocks = precision.weights.of(part).name.removesuffix("-wo") == WEIGHT_FORMATS["fp8-block"].name
        if in_blocks and cut > 1 and width % (cut * BLOCK):
            remedy = f"--ep {tp} or fewer devices" if part == "experts" else "fewer devices"
            raise InputError(
                f"--tp: {_PARTS[part]} of {model.name} are {width} wide in blocks of {BLOCK}, and {cut} "
                f"devices would divide a block; use {remedy}"
            )
