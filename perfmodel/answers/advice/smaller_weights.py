"""Smaller formats of the weights that a question leaves open: FP8, and known checkpoints of 4 bits."""

from collections.abc import Iterator
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.servers.base import UNQUANTISED
from perfmodel.answers.question import Named
from perfmodel.specs import load_model, served_id, weight_format
from perfmodel.specs.models.checkpoints import FOUR_BIT_GROUPS, checkpoint, main_format

SMALLER = "fp8"
"""The format that vLLM and SGLang make of unquantised weights when they load them."""
FOUR_BIT_FLOATS = {"NVIDIA": "nvfp4", "AMD": "mxfp4"}
"""The format of 4-bit floats that the devices of a maker multiply."""
MOST_FOUR_BIT_BYTES = 0.7
"""Bytes of a weight with its scales, up to which a format has 4 bits."""


def may_be_smaller(query: AdviseQuery) -> bool:
    """Whether the engine may make FP8 weights of a checkpoint of 16 bits, and the question leaves it open."""
    return _leaves_weights_open(query) and load_model(query.model).weights in UNQUANTISED


def four_bit_checkpoints(query: AdviseQuery) -> Iterator[dict[str, Any]]:
    """The argument that names the known checkpoint of 4 bits which the device computes best; none without
    one, if the model's own checkpoint has such weights, or if the question names a format.
    """
    if not _leaves_weights_open(query):
        return
    gpu = Named.of(query).gpu
    engine = query.served_by
    assert engine is not None
    floats = FOUR_BIT_FLOATS.get(gpu.vendor) if "fp4" in gpu.peak else None
    own = main_format(load_model(query.model).weights)
    if own == floats:
        return
    has_integers = weight_format(own).base.bytes_per_value < MOST_FOUR_BIT_BYTES
    formats = [floats] if has_integers else [floats, FOUR_BIT_GROUPS[0]]
    served = served_id(query.model) or ""
    known = [checkpoint(served, weights, gpu.vendor, engine.reads) for weights in formats if weights]
    yield from [{"model": row.checkpoint} for row in known if row is not None][:1]


def _leaves_weights_open(query: AdviseQuery) -> bool:
    """Whether the question names no format, and its engine serves checkpoints as they are published."""
    engine = query.served_by
    named = query.weights is not None or query.model_path is not None
    return not named and engine is not None and engine.conversion is None
