"""One spelling of every draft cache that decodes what the target does, small enough to leave most of a prompt out."""

from typing import Any

from perfmodel.validate.decoder.factory import counter_of
from perfmodel.validate.decoder.speculative import Decoder

PUBLISHED = "streamingllm:24,own_prefill=true"
METHODS = [
    "full",
    "streamingllm:24",
    PUBLISHED,
    "snapkv:24,window=8",
    "quest:24,page=4",
    "topk:24",
    "retrieval:24,every=3,chunk=4",
    "quantized,bits=4",
]


def watched(decoder: Decoder) -> Any:
    """The counter of a tree or of two levels, watching."""
    counter = counter_of(decoder)
    assert counter is not None
    decoder.observers.append(counter)
    return counter
