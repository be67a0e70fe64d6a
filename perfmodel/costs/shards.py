"""The share of a model on one device: everything in a pass that does not depend on batch, context and query
tokens. `costs.sharding` computes it.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from perfmodel.costs.experts import Experts
from perfmodel.costs.gemms import Linear, stacked_by_format
from perfmodel.costs.graphs import padded
from perfmodel.immutable import Immutable
from perfmodel.kv.base import KVLayout
from perfmodel.operations import Floats
from perfmodel.specs import WEIGHT_FORMATS, ModelSpec, Precision

INDEX_KEY_BYTES = WEIGHT_FORMATS["fp8-block"].input_bytes or 1.0
"""Bytes of one value of an indexer's cached key: fp8 with a scale per 128 (vLLM, models/deepseek_v2.py)."""


class Small(Immutable):
    """An element-wise kernel, with its number of launches and its bytes per token.

    - of_experts: whether the kernel routes tokens to experts.
    - gathered: see `Linear`.
    """

    name: str
    kernels: int
    activation_bytes_per_token: float
    of_experts: bool = False
    gathered: bool = False


class Attention(Immutable):
    """A group of layers with the same attention span and cache layout. If `window` is None, they attend to
    the whole context.

    - topk: number of cached tokens that an indexer chooses for each query token. None means all tokens in the
      span.
    - stride: number of tokens per cached entry. If it is above 1, one kernel reads these entries and the
      window of the same layers. The launches of this kernel are counted with the window.
    - shared: number of these layers that have no cache of their own.
    - prompt_flops_per_pair: FLOPs per pair of query token and attended token in a pass over an empty cache.
      In such a pass, MLA is not absorbed, and its heads have their own keys and values (vLLM,
      v1/attention/backends/mla/common.py).
    """

    name: str
    layers: int
    window: int | None
    layout: KVLayout
    flops_per_pair: float
    prompt_flops_per_pair: float
    activation_bytes_per_token: float
    topk: int | None = None
    stride: int = 1
    shared: int = 0

    def span(self, context: Floats) -> Floats:
        """Number of cached entries to which a layer attends."""
        entries = context if self.stride == 1 else context / self.stride
        return entries if self.window is None else np.minimum(entries, self.window)


class States(Immutable):
    """The recurrent layers of a model: the bytes of one sequence's state over all layers, and the work of one
    token.

    - bytes_per_input: bytes of one input of the convolution. Engines keep one more input for each drafted
      token.
    """

    name: str
    layers: int
    bytes_per_sequence: float
    flops_per_token: float
    activation_bytes_per_token: float
    bytes_per_input: float


@dataclass(frozen=True, slots=True)
class Shard:
    """The share of a model on one device: everything in a pass that does not depend on batch, context and
    query tokens.

    - expert_bytes: bytes of all routed experts that the device holds. These bytes are part of
      stored_weight_bytes.
    - graph_sizes: numbers of tokens for which CUDA graphs are captured (`graphs.padded`). It is empty without
      graphs.
    - groups: number of data-parallel attention groups. Each group computes the whole attention of its own
      sequences. It is 1 without such groups.
    - exchanges: whether an all-to-all library sends each token to the ranks of its experts.
    - stages: number of pipeline stages, each with a part of the layers. The operations of a pass are those of
      all stages.
    - micro_batches: number of parts into which a pass is cut to overlap computing with communication.
    - gathers_logits: whether the devices gather the logits of a sharded LM head.
    - itemised: whether a pass lists every operation. The share that `summed` returns has fewer, larger
      operations with the same total time.
    """

    model: ModelSpec
    tensor_parallel: int
    precision: Precision
    linears: tuple[Linear, ...]
    lm_head: Linear
    experts: Experts | None
    smalls: tuple[Small, ...]
    attentions: tuple[Attention, ...]
    states: States | None
    expert_bytes: float
    stored_weight_bytes: float
    kv_page: int
    graph_sizes: tuple[int, ...]
    groups: int
    exchanges: bool = False
    stages: int = 1
    micro_batches: int = 1
    gathers_logits: bool = False
    itemised: bool = True
    _stacks: dict[tuple[int, bool], tuple[Linear, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def summed(self) -> "Shard":
        """The same share with fewer operations per pass. Projections of one format are stacked, and
        element-wise kernels are summed. The time of a pass does not change.
        """
        lumps = []
        for of_experts, gathered in sorted({(small.of_experts, small.gathered) for small in self.smalls}):
            alike = [s for s in self.smalls if (s.of_experts, s.gathered) == (of_experts, gathered)]
            kernels = sum(s.kernels for s in alike)
            per_token = sum(s.activation_bytes_per_token for s in alike)
            lumps.append(Small("element-wise", kernels, per_token, of_experts, gathered))
        return replace(self, smalls=tuple(lumps), itemised=False, _stacks={})

    def projections(self, ndim: int, with_head: bool) -> tuple[Linear, ...]:
        """The projections of the layers. In a `summed` share, projections of one format are stacked on an
        axis before the last `ndim` axes. If `with_head` is true, the LM head is stacked too.
        """
        if self.itemised:
            return self.linears
        if (key := (ndim, with_head)) not in self._stacks:
            self._stacks[key] = stacked_by_format(
                (*self.linears, self.lm_head) if with_head else self.linears, ndim
            )
        return self._stacks[key]

    def sequences(self, batch: Floats) -> Floats:
        """Number of sequences of a batch in one pass, on the data-parallel attention group with the most
        sequences.

        Each pipeline stage works on its own part of the batch at a time.
        """
        parts = self.groups * self.stages
        if parts == 1:
            return batch
        return np.ceil(batch / parts)

    def rows(self, tokens: Floats) -> Floats:
        """Number of tokens on which the kernels of a pass run, including the padding of CUDA graphs."""
        return padded(tokens, self.graph_sizes)

    @property
    def _index_bytes(self) -> float:
        """Bytes of the indexer's key of one token, which every device holds whole."""
        index = self.model.indexer
        if index:
            return index.layers * index.head_dim * INDEX_KEY_BYTES / index.stride
        return 0.0

    def stored_kv_bytes(self, context: Floats, states: Floats = 1.0) -> Floats:
        """Bytes that one sequence of `context` tokens stores in the cache of this device. Sliding-window
        layers store only their window.

        - states: number of copies of a recurrent state. Verification may keep one more copy for each drafted
          token.
        """
        index_bytes = self._index_bytes * self.paged(context) if self.model.indexer else 0.0
        attention_bytes = (
            (a.layers - a.shared) * a.layout.token_bytes * self.paged(a.span(context))
            for a in self.attentions
        )
        cached = sum(attention_bytes, start=index_bytes)
        if self.states is None:
            return cached
        return cached + self.states.bytes_per_sequence * states

    @property
    def state_bytes(self) -> float:
        """Bytes of the recurrent state of one sequence on this device."""
        return 0.0 if self.states is None else self.states.bytes_per_sequence

    def context_of(self, kv_bytes: float) -> float | None:
        """The context length at which a pass reads `kv_bytes` of cache, without rounding to pages. The result
        is None if sliding windows keep every cache below this size.
        """
        spans: list[tuple[int | None, float]] = [(None, self._index_bytes)]
        for a in self.attentions:
            chosen = a.topk and a.topk * a.stride
            spans.append((a.window or chosen, a.layers * a.layout.token_bytes / a.stride))
        start = read = 0.0
        for end in (*sorted({window for window, _ in spans if window is not None}), np.inf):
            slope = sum(each for window, each in spans if window is None or window >= end)
            read_at_end = read + slope * (end - start)  # NaN (0 times infinity) if no cache grows any more
            if read_at_end >= kv_bytes:
                return float(start + (kv_bytes - read) / slope)
            read = read_at_end
            start = end
        return None

    def block_with_state(self, block: int, drafted: int) -> int:
        """Number of tokens of a cache block whose attention page has room for one recurrent state. It is the
        smallest such multiple of `block`. For a model without recurrent or without attention layers, it is
        `block`.

        The recurrent state is that of one layer and one sequence on this device. It includes one convolution
        input for each drafted token (vLLM 0.32, platforms/interface.py).
        """
        states = self.states
        if states is None or not self.attentions:
            return block
        state_bytes = (states.bytes_per_sequence + drafted * states.bytes_per_input) / states.layers
        block_bytes = block * self.attentions[0].layout.token_bytes
        return block * math.ceil(state_bytes / block_bytes)

    def paged(self, tokens: Floats) -> Floats:
        """Number of cached tokens, rounded up to whole pages of `kv_page` tokens."""
        if self.kv_page == 1:
            return tokens
        return np.ceil(tokens / self.kv_page) * self.kv_page
