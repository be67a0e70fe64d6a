"""Finds smaller formats for a question: FP8 weights, known 4-bit checkpoints, and an FP8 cache."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.servers.base import UNQUANTISED
from perfmodel.answers.question import Named
from perfmodel.specs import engine_of, load_model, served_id, weight_format
from perfmodel.specs.models.checkpoint_rows import Checkpoint
from perfmodel.specs.models.checkpoints import FOUR_BIT_GROUPS, checkpoint, main_format

SMALLER = "fp8"
"""The format to which vLLM and SGLang can quantise weights when they load them, and KV caches."""
INTEGERS = "int8"
"""The 8-bit format of weights and activations for devices that do not compute in FP8."""
FOUR_BIT_FLOATS = {"NVIDIA": "nvfp4", "AMD": "mxfp4"}
"""Vendor -> the format of 4-bit floats in which its devices compute."""
MOST_FOUR_BIT_BYTES = 0.7
"""A format counts as a 4-bit format if it has at most this many bytes per weight, including scales."""
WITH_FP8_CACHE = ("vllm", "sglang")
"""Engines that can keep the KV cache in FP8 for any checkpoint."""
LESS = 0.75
"""FP8 counts as smaller than another format if it has at most this share of the bytes per weight of that
format.
"""


def may_be_smaller(query: AdviseQuery) -> bool:
    """Whether to try FP8 weights. The checkpoint must not be quantised, the engine must be able to quantise
    it on load, and the question must state no weight format.
    """
    return _leaves_weights_open(query) and load_model(query.model).weights in UNQUANTISED


def four_bit_checkpoints(query: AdviseQuery) -> Iterator[dict[str, Any]]:
    """The changed argument that names a known 4-bit checkpoint, in the format that is fastest on the device.
    Yields nothing if there is no such checkpoint, if the model's checkpoint already has 4 bits, or if the
    question states a format.
    """
    if not _leaves_weights_open(query):
        return
    if (repository := _four_bit_checkpoint(query)) is not None:
        yield {"model": repository}


def in_smaller_weights(query: AdviseQuery) -> Iterator[tuple[str, AdviseQuery]]:
    """A pair of a flag and the question with this flag, for each smaller weight format that the engine can
    serve. FP8 comes first. A format that the question states is replaced. Yields nothing for engines that
    convert checkpoints, such as llama.cpp.
    """
    if not _serves_as_published(query):
        return
    if may_be_smaller(query) or _has_smaller_fp8(query):
        weights = eight_bits(query)
        yield f"--weights {weights}", replace(query, weights=weights)
    if (repository := _four_bit_checkpoint(query)) is not None:
        yield f"--model {repository}", replace(query, model=repository, weights=None)


def in_smaller_formats(query: AdviseQuery) -> Iterator[tuple[str, AdviseQuery]]:
    """A pair of flags and the question with these flags, for each smaller format of weights, cache or both.
    Formats that lose less precision come first.
    """
    yield from with_smaller_cache("", query)
    for flag, smaller in in_smaller_weights(query):
        yield flag, smaller
        yield from with_smaller_cache(f"{flag} ", smaller)


def with_smaller_cache(flags: str, query: AdviseQuery) -> Iterator[tuple[str, AdviseQuery]]:
    """A pair of flags and the question with an FP8 cache. Yields nothing if the engine does not offer such a
    cache for every checkpoint, if the question states a format, or if the checkpoint's own cache is as small.
    """
    named = Named.of(query)
    if query.kv_dtype is not None or engine_of(named.calibration) not in WITH_FP8_CACHE:
        return
    if not named.precision(query).narrow_kv:
        yield f"{flags}--kv-dtype {SMALLER}", replace(query, kv_dtype=SMALLER)


def eight_bits(query: AdviseQuery) -> str:
    """The 8-bit weight format to try. This is INT8 on a device that multiplies 8-bit integers but not FP8
    (such as NVIDIA's Ampere) if such a checkpoint is known, and otherwise FP8. On such a device, FP8 weights
    only save memory and its bandwidth.
    """
    peak = Named.of(query).gpu.peak
    if "fp8" in peak or INTEGERS not in peak:
        return SMALLER
    known = _known(query, INTEGERS)
    return INTEGERS if known is not None and known.weights == INTEGERS else SMALLER


def _has_smaller_fp8(query: AdviseQuery) -> bool:
    """Whether a checkpoint in FP8 is known, and smaller than the weights of the question."""
    used = weight_format(_format_of(query)).base
    smaller = weight_format(SMALLER).base.bytes_per_value < LESS * used.bytes_per_value
    return smaller and known_checkpoint(query, SMALLER) is not None


def _four_bit_checkpoint(query: AdviseQuery) -> str | None:
    """The repository of the known 4-bit checkpoint that is fastest on the device; None if there is none, or
    if the weights of the question already have 4 bits. 4-bit floats may replace 4-bit integers, but not the
    reverse.
    """
    gpu = Named.of(query).gpu
    floats = FOUR_BIT_FLOATS.get(gpu.vendor) if "fp4" in gpu.peak else None
    own = _format_of(query)
    if own == floats:
        return None
    has_four_bits = weight_format(own).base.bytes_per_value < MOST_FOUR_BIT_BYTES
    formats = [floats] if has_four_bits else [floats, FOUR_BIT_GROUPS[0]]
    known = (known_checkpoint(query, weights) for weights in formats if weights)
    return next((repository for repository in known if repository is not None), None)


def known_checkpoint(query: AdviseQuery, weights: str) -> str | None:
    """The repository of a known checkpoint of the model in a format that the engine reads."""
    known = _known(query, weights)
    return None if known is None else known.checkpoint


def _known(query: AdviseQuery, weights: str) -> Checkpoint | None:
    """The known checkpoint of the model in a format that the engine reads."""
    served = served_id(query.model)
    engine = query.served_by
    if served is None or engine is None:
        return None
    return checkpoint(served, weights, Named.of(query).gpu, engine.reads)


def _format_of(query: AdviseQuery) -> str:
    """The format of most weights of a question."""
    return main_format(Named.of(query).precision(query).weights.name)


def _serves_as_published(query: AdviseQuery) -> bool:
    """Whether the engine of the question serves checkpoints as they are published."""
    engine = query.served_by
    return engine is not None and engine.conversion is None


def _leaves_weights_open(query: AdviseQuery) -> bool:
    """Whether the question names no format, and its engine serves checkpoints as they are published."""
    return query.weights is None and query.model_path is None and _serves_as_published(query)
