"""The base class of memory accounts. If no engine is known, the base class itself applies. It gives a fixed
share of the memory to weights and caches.
"""

from typing import ClassVar, Literal

import numpy as np

from perfmodel.costs import Shard
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.specs import GPUSpec

Drafts = Literal["none", "lookup", "head", "model"]
"""The way in which a server drafts: not at all, by a search in the text, with a head or a part of the target,
or with another model.
"""
DEFAULT_MEMORY_FRACTION = 0.92
"""Share of device memory if no engine is known: vLLM's default (`CacheConfig.gpu_memory_utilization`)."""


class ServerSettings(Immutable):
    """The limits with which a server is started. None means the default of the engine.

    - version: version of the engine. Empty means the newest version.
    - devices: number of devices that share the layers and run one after another. The memory of these devices
      is added up.
    """

    version: str = ""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    devices: int = 1

    @property
    def stated(self) -> str:
        """The limits that differ from the engine's defaults, as text for a caption. The result is empty if
        there are none.
        """
        limits = {
            "seats": self.max_num_seqs,
            "tokens of a pass": self.max_num_batched_tokens,
            "tokens of a sequence": self.max_model_len,
        }
        return "".join(f", {value} {words}" for words, value in limits.items() if value is not None)


class Account(Immutable):
    """The memory account of one device of a server. It gives the memory for weights and caches, and the cache
    memory that a sequence needs. All sizes are in bytes.

    - shard (argument of the methods): the share of the target on this device.
    """

    server: ServerSettings = ServerSettings()
    complete: ClassVar[bool] = False
    """Whether the memory of activations and CUDA graphs is subtracted."""

    def budget(self, gpu: GPUSpec) -> int | None:
        """The token budget of one pass. The result is None if the engine's default is unknown."""
        return self.server.max_num_batched_tokens

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        """The engine's default for the share of device memory that is for weights and caches."""
        return DEFAULT_MEMORY_FRACTION

    def available_bytes(self, gpu: GPUSpec, shard: Shard, fraction: float | None, drafts: Drafts) -> float:
        """The memory for weights and caches, given the share of the device's memory. A share of None means
        the engine's default.
        """
        share = self.fraction(gpu, shard, drafts) if fraction is None else fraction
        return share * gpu.memory_bytes

    @property
    def margin_bytes(self) -> float:
        """The memory that the engine leaves free by default, but can be started without."""
        return 0.0

    def seats(self, gpu: GPUSpec) -> int:
        """The largest number of requests that the server runs at once. It is the stated number, or the
        engine's default. The result is 0 if it is unknown.
        """
        return self.server.max_num_seqs or 0

    def seat_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """The memory that a server needs for each seat in addition to the caches, if the number of seats is
        not stated. The server is then assumed to be started with as many seats as requests run.
        """
        return 0.0

    def padding_bytes(self, shard: Shard) -> float:
        """Bytes of weights in addition to those of the language model, such as padding or a vision tower."""
        return 0.0

    def host_bytes(self, shard: Shard) -> float:
        """Bytes of the checkpoint's weights that stay in host memory."""
        return 0.0

    @property
    def draft_inside(self) -> bool:
        """Whether the weights and the cache of a draft reduce the memory for the target's cache."""
        return True

    def cache_share(self, shard: Shard) -> float:
        """The share of the cache memory that is not reserved for recurrent states."""
        return 1.0

    def sequences(self, pool: Floats, cached: Floats, state: Floats, copies: Floats) -> Floats:
        """Number of sequences whose caches and states fit in `pool` bytes, not rounded.

        - state: bytes of one copy of the recurrent state.
        - copies: number of copies of the state per sequence.
        """
        return np.divide(pool, cached + state * copies)

    def length(self, shard: Shard) -> int:
        """The longest sequence that the server accepts, in tokens."""
        return self.server.max_model_len or shard.model.max_position_embeddings

    def stored_bytes(self, shard: Shard, tokens: Floats, states: Floats) -> Floats:
        """Cache bytes of one sequence of `tokens` tokens, including `states` copies of its recurrent
        state.
        """
        return shard.stored_kv_bytes(tokens, states)

    def sequence_bytes(self, gpu: GPUSpec, shard: Shard, draft_token_bytes: float, drafted: int) -> float:
        """Cache bytes of one sequence of the longest length (`length`) with its draft, as the engine counts
        them when it starts.

        - draft_token_bytes: bytes per token of the draft's own cache.
        - drafted: number of drafted tokens per iteration.
        """
        tokens = self.length(shard)
        return float(shard.stored_kv_bytes(tokens, 1.0 + drafted)) + draft_token_bytes * tokens
