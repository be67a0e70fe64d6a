"""What a draft is to the engine: a model that runs one token per step through its own view of the cache."""

from dataclasses import dataclass
from typing import Protocol

from perfmodel.formats import Precision
from perfmodel.kv.base import KVMethod
from perfmodel.specs.model import ModelSpec


class Draft(Protocol):
    """A draft's cost is `gamma` passes of `model` with one query token each, reading its cache through `kv`.

    views_target_cache: the draft reads the target's cache and keeps only what `kv.stored_bytes` counts beside it.
    shares_weights: the draft runs the target's own weights, so that it needs no memory for any.
    shares_prefill: the target's prefill leaves everything the draft needs except what `kv.setup` counts.
    """

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> ModelSpec: ...
    @property
    def kv(self) -> KVMethod: ...
    @property
    def tensor_parallel(self) -> int: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def views_target_cache(self) -> bool: ...
    @property
    def shares_weights(self) -> bool: ...
    @property
    def shares_prefill(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DraftFields:
    """The fields that every draft kind carries."""

    model: ModelSpec
    kv: KVMethod
    tensor_parallel: int
    precision: Precision
