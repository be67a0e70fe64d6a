"""Formats of weights with which a load may take fewer devices, where a checkpoint has them."""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.smaller_weights import SMALLER, may_be_smaller
from perfmodel.answers.question import Named
from perfmodel.specs import served_id, weight_format
from perfmodel.specs.models.checkpoints import checkpoint, main_format

FOUR_BITS_ON = {"fp4": "nvfp4"}
"""Peak of a device -> the format of four bits that it multiplies."""
FOUR_BITS = "awq-g128"
"""The format of four bits on other devices, or one of the same size."""
LESS = 0.75
"""Largest ratio of the bytes of a format to those of another that it is tried instead of."""


def in_other_formats(question: AdviseQuery) -> Iterator[AdviseQuery]:
    """The question in smaller formats, and in those with which the device multiplies faster; FP8 first. None
    on engines that convert checkpoints.
    """
    engine = question.served_by
    if engine is None or engine.conversion is not None:
        return
    named = Named.of(question)
    peak = named.gpu.peak
    used = weight_format(main_format(named.precision(question).weights.name)).base
    whole = used.bytes_per_value * LESS > weight_format(SMALLER).base.bytes_per_value
    if may_be_smaller(question) or (whole and _known(question, SMALLER)):
        yield replace(question, weights=SMALLER)
    name = next((name for computes, name in FOUR_BITS_ON.items() if computes in peak), FOUR_BITS)
    four_bits = weight_format(name).base
    smaller = used.bytes_per_value * LESS > four_bits.bytes_per_value
    faster = used.compute != four_bits.compute and four_bits.compute in FOUR_BITS_ON
    if (smaller or faster) and _known(question, name):
        yield replace(question, weights=name)


def _known(question: AdviseQuery, weights: str) -> bool:
    """Whether a checkpoint of the model in a format is known."""
    repository = served_id(question.model)
    engine = question.served_by
    if repository is None or engine is None:
        return False
    return checkpoint(repository, weights, Named.of(question).gpu.vendor, engine.reads) is not None
