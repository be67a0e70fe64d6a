"""How the memory of a device is divided if no engine is known: a fixed share of it is for weights and
caches.
"""

from typing import ClassVar, Literal

import numpy as np

from perfmodel.costs import Shard
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.specs import GPUSpec

Drafts = Literal["none", "lookup", "head", "model"]
"""How a server drafts: not at all, by a search in the text, with a head or a part of the target, or with
another model.
"""
DEFAULT_MEMORY_FRACTION = 0.92
"""Share of device memory if no engine is known: vLLM's default (`CacheConfig.gpu_memory_utilization`)."""


class ServerSettings(Immutable):
    """Limits with which a server starts; None means the default of the engine.

    - version: empty for the newest.
    - devices: number of devices that each hold some of the layers and run one after another; their memory is
      added up.
    """

    version: str = ""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    devices: int = 1

    @property
    def stated(self) -> str:
        """The limits that differ from the engine's defaults, for a caption; empty if there are none."""
        limits = {
            "seats": self.max_num_seqs,
            "tokens of a pass": self.max_num_batched_tokens,
            "tokens of a sequence": self.max_model_len,
        }
        return "".join(f", {value} {words}" for words, value in limits.items() if value is not None)


class Account(Immutable):
    """The memory of one device of a server: how much there is for weights and caches, and how much cache
    memory a sequence takes.

    - shard: the share of the target on this device. All sizes are in bytes.
    """

    server: ServerSettings = ServerSettings()
    complete: ClassVar[bool] = False
    """Whether the memory of activations and CUDA graphs is subtracted."""

    def budget(self, gpu: GPUSpec) -> int | None:
        """Token budget of one pass; None if the engine's default is unknown."""
        return self.server.max_num_batched_tokens

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        """The engine's default for the share of device memory that weights and caches get."""
        return DEFAULT_MEMORY_FRACTION

    def available_bytes(self, gpu: GPUSpec, shard: Shard, fraction: float | None, drafts: Drafts) -> float:
        """Memory for weights and caches, with a share of the device; None means the engine's default."""
        share = self.fraction(gpu, shard, drafts) if fraction is None else fraction
        return share * gpu.memory_bytes

    def seats(self, gpu: GPUSpec) -> int:
        """Largest number of requests that the server runs at once, as stated or by the engine's default; 0
        if it is unknown.
        """
        return self.server.max_num_seqs or 0

    def seat_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """Memory that a server takes for each seat in addition to the caches, if the number of seats is
        not stated. It is then assumed that the server is started with as many seats as requests run.
        """
        return 0.0

    def padding_bytes(self, shard: Shard) -> float:
        """Weights in addition to those of the language model: padding, a vision tower."""
        return 0.0

    def host_bytes(self, shard: Shard) -> float:
        """Weights of the checkpoint that stay in host memory."""
        return 0.0

    @property
    def draft_inside(self) -> bool:
        """Whether a draft's weights and cache are taken from the memory of the target's cache."""
        return True

    def cache_share(self, shard: Shard) -> float:
        """Share of the cache memory that is not reserved for recurrent states."""
        return 1.0

    def sequences(self, pool: Floats, cached: Floats, state: Floats, copies: Floats) -> Floats:
        """Number of sequences, not rounded, whose caches and states fit in `pool`.

        - state: bytes of one copy of the state.
        - copies: copies per sequence.
        """
        return np.divide(pool, cached + state * copies)

    def length(self, shard: Shard) -> int:
        """The longest sequence that the server accepts, in tokens."""
        return self.server.max_model_len or shard.model.max_position_embeddings

    def stored_bytes(self, shard: Shard, tokens: Floats, states: Floats) -> Floats:
        """Cache of one sequence of `tokens` tokens, with copies of its recurrent state."""
        return shard.stored_kv_bytes(tokens, states)

    def sequence_bytes(self, gpu: GPUSpec, shard: Shard, draft_token_bytes: float, drafted: int) -> float:
        """Cache of one sequence of the largest length (`length`), with its draft, as the engine counts it
        when it starts.

        - draft_token_bytes: bytes per token of the draft's own cache.
        - drafted: drafted tokens per iteration.
        """
        tokens = self.length(shard)
        return float(shard.stored_kv_bytes(tokens, 1.0 + drafted)) + draft_token_bytes * tokens
