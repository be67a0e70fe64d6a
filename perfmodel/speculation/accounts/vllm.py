"""The memory account of vLLM: fraction x reported memory - weights - activations - memory outside PyTorch -
CUDA graphs.

The activations are those of vLLM's profiling run, which consists of one pass of the largest size and sampling
for all seats.
"""

import math

from msgspec import field

from perfmodel.costs import Shard
from perfmodel.costs.shards import Attention
from perfmodel.operations import Floats
from perfmodel.specs import GPUSpec, release, serving_engines
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.specs.engines.engines import since
from perfmodel.specs.engines.memory_facts import Activation, VLLMMemory, vllm_memory
from perfmodel.speculation.accounts.base import Account, Drafts

GIB = FACTORS["GiB"]
VALUE_BYTES = 2.0
"""Bytes of an activation, in 16 bits."""
FEW_PADDED = 1.5
"""Limit of the ratio of the numbers of layers of two kinds. Below this ratio, the smaller group of layers is
padded to the larger one. From this ratio on, all groups have the size of the smaller one (vLLM 0.24,
v1/core/kv_cache_utils.py).
"""


class VLLMAccount(Account):
    """The memory account of vLLM, for its engines V0 and V1. The `Activation` numbers of the two differ.

    - facts: the numbers that the account uses.
    """

    complete = True

    facts: VLLMMemory = field(default_factory=vllm_memory)

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        return since(self.facts.fraction, self.server.version)

    def available_bytes(self, gpu: GPUSpec, shard: Shard, fraction: float | None, drafts: Drafts) -> float:
        share = self.fraction(gpu, shard, drafts) if fraction is None else fraction
        taken = self.activation_bytes(gpu, shard) + self.outside_bytes(gpu, shard)
        return share * gpu.memory_bytes - taken - self.graph_bytes(gpu, shard, drafts)

    def activation_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """Peak memory of activations in the profiling run: the pass, the logits and the sampler for the
        stated seats, and the vision tower.
        """
        logits = (self.server.max_num_seqs or 0) * self._sampled_bytes(gpu, shard)
        tokens = self.pass_tokens(gpu, shard)
        vision = self.facts.vision
        sees = shard.model.model_type in vision.model_types and tokens >= vision.from_tokens
        tower = vision.pass_gib * GIB if sees else 0.0
        return tokens * self._token_bytes(shard) + logits + tower

    def seat_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """Memory of the logits and the sampler for one seat. The result is 0 if the number of seats is
        stated.
        """
        return self._sampled_bytes(gpu, shard) if self.server.max_num_seqs is None else 0.0

    def _sampled_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """Memory of the logits and the sampler for one sequence."""
        facts = self._activation
        flashinfer = gpu.vendor == "NVIDIA" and facts.flashinfer_logit_bytes is not None
        logit_bytes = facts.flashinfer_logit_bytes if flashinfer else facts.logit_bytes
        return shard.model.vocab_size * (logit_bytes or 0.0)

    def outside_bytes(self, gpu: GPUSpec, shard: Shard) -> float:
        """Memory outside PyTorch: the device context, communication buffers, and the workspace of MLA."""
        more = self.facts.outside
        size = self._activation.outside_gib
        if shard.tensor_parallel > 1:
            size += more.devices_gib
        if shard.tensor_parallel >= more.many_devices and not gpu.over_host(shard.tensor_parallel):
            size += more.many_devices_gib
        if shard.model.mla:
            size += more.latent_gib
        if gpu.memory_type.startswith("LPDDR"):
            size += more.shared_memory_gib
        return size * GIB

    def graph_bytes(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        """Memory of CUDA graphs. The result is 0 for versions that do not subtract it."""
        facts = self.facts.graphs
        model = shard.model
        if gpu.vendor != "NVIDIA" or not self._from(facts.since):
            return 0.0
        size = facts.usual_gib
        if model.num_sliding_layers:
            size = facts.sliding_gib
        if shard.states:
            size = facts.recurrent_gib
        if model.mla and model.indexer:
            size = facts.sparse_latent_gib
        factor = facts.draft_factor if drafts in ("head", "model") else 1.0
        return size * factor * GIB

    def seats(self, gpu: GPUSpec) -> int:
        """The largest number of requests that run at once."""
        seats = serving_engines()["vllm"].seats
        if self.server.max_num_seqs is not None or seats is None:
            return self.server.max_num_seqs or 0
        return seats.of(self.server.version, gpu)

    def budget(self, gpu: GPUSpec) -> int:
        """The token budget of one pass."""
        if self.server.max_num_batched_tokens is not None:
            return self.server.max_num_batched_tokens
        facts = self.facts.batched_tokens
        size_gib = gpu.memory_bytes / GIB
        if size_gib >= facts.huge_from_gib and self._from(facts.huge_since):
            return facts.huge
        if size_gib >= facts.large_from_gib and facts.never_large not in gpu.name:
            return facts.large
        return facts.usual

    def pass_tokens(self, gpu: GPUSpec, shard: Shard) -> int:
        """Number of tokens of the pass in the profiling run."""
        facts = self._activation
        length = self.length(shard)
        if facts.chunked_above is None:
            return min(self.budget(gpu), length * max(self.seats(gpu), 1))
        if length > facts.chunked_above and gpu.vendor == "NVIDIA":
            return facts.chunked_tokens
        return length

    def padding_bytes(self, shard: Shard) -> float:
        vision = self.facts.vision
        tower = vision.weights_gib * GIB if shard.model.model_type in vision.model_types else 0.0
        return tower + self._expert_padding_bytes(shard)

    def _expert_padding_bytes(self, shard: Shard) -> float:
        """Bytes by which rounding up the sizes of experts increases their weights."""
        padded = self.facts.padded_experts
        experts = shard.experts
        model = shard.model
        if experts is None or model.moe is None or experts.form.name != padded.format:
            return 0.0
        outer = model.moe.latent_size or model.hidden_size
        inner = model.moe.intermediate_size / (shard.tensor_parallel // experts.groups)
        ratio = _rounded(outer, padded.outer) * _rounded(inner, padded.inner) / (outer * inner)
        return shard.expert_bytes * (ratio - 1.0)

    def stored_bytes(self, shard: Shard, tokens: Floats, states: Floats) -> Floats:
        """See `Account.stored_bytes`. In versions that do not group layers by kind, sliding-window layers
        store all tokens.
        """
        stored = shard.stored_kv_bytes(tokens, states)
        sliding = _sliding(shard)
        if not sliding or self._frees_windows(shard):
            return stored
        beyond = (
            (a.layers - a.shared) * a.layout.token_bytes * (shard.paged(tokens) - shard.paged(a.span(tokens)))
            for a in sliding
        )
        return sum(beyond, start=stored)

    def sequence_bytes(self, gpu: GPUSpec, shard: Shard, draft_token_bytes: float, drafted: int) -> float:
        """See `Account.sequence_bytes`. vLLM divides the layers of each kind into groups of equal size and
        pads the last group. If windows are freed, a sliding-window layer stores at most the tokens of its
        window and of one pass. This number is rounded up to whole blocks, and one block is added
        (v1/core/kv_cache_utils.py).
        """
        if shard.states is not None and shard.attentions:
            return self._blocks_bytes(shard, draft_token_bytes, drafted)
        length = self.length(shard)
        sliding = _sliding(shard)
        if not sliding or shard.model.compressed:
            return float(shard.stored_kv_bytes(length)) + draft_token_bytes * length
        full = [a for a in shard.attentions if a.window is None]
        rest = float(shard.stored_kv_bytes(length)) - sum(
            float((a.layers - a.shared) * a.layout.token_bytes * shard.paged(a.span(length)))
            for a in shard.attentions
        )
        group = _group([a.layers - a.shared for a in shard.attentions])
        cached = sum(_rounded(a.layers - a.shared, group) * a.layout.token_bytes * length for a in full)
        for a in sliding:
            held_tokens = self._held(gpu, shard, a.window or 0)
            cached += _rounded(a.layers - a.shared, group) * a.layout.token_bytes * held_tokens
        return cached + rest + draft_token_bytes * length

    def _held(self, gpu: GPUSpec, shard: Shard, window: int) -> float:
        """Largest number of tokens that a sliding-window layer stores."""
        length = self.length(shard)
        if not self._frees_windows(shard):
            return length
        block = self.facts.block
        return min(length, _rounded(window - 1 + self.budget(gpu), block) + block)

    def _frees_windows(self, shard: Shard) -> bool:
        """Whether sliding-window layers free the tokens that they no longer read."""
        uneven = shard.model.sliding_heads is not None and not self._from(self.facts.uneven_windows_since)
        chunked = shard.model.model_type in self.facts.chunked.model_types
        return self._activation.windows and not uneven and not chunked

    def _blocks_bytes(self, shard: Shard, draft_token_bytes: float, drafted: int) -> float:
        """Cache bytes of one sequence of a model with recurrent layers. A block has the tokens of all
        attention layers, or one state of the same number of recurrent layers.
        """
        assert shard.states is not None
        tokens = shard.block_with_state(self.facts.block, drafted)
        layers = sum(a.layers - a.shared for a in shard.attentions)
        each = sum((a.layers - a.shared) * a.layout.token_bytes for a in shard.attentions) / layers
        layers += math.ceil(draft_token_bytes / each)
        block_bytes = tokens * each * layers
        copies = 1 + drafted if drafted else since(self.facts.state_copies, self.server.version)
        groups = math.ceil(shard.states.layers / layers)
        return block_bytes * (math.ceil(self.length(shard) / tokens) + groups * copies)

    @property
    def _activation(self) -> Activation:
        """The facts about activations in the version of the server."""
        return since(self.facts.activation, self.server.version)

    def _from(self, version: str) -> bool:
        """Whether the server has this version or a later one."""
        return not self.server.version or release(self.server.version) >= release(version)

    def _token_bytes(self, shard: Shard) -> float:
        """Peak bytes of activations per token, in a dense MLP or in the experts of the token."""
        facts = self._activation
        model = shard.model
        dense = facts.inner * model.intermediate_size / shard.tensor_parallel
        routed = 0.0
        if model.moe:
            inner = facts.inner * model.moe.intermediate_size / shard.tensor_parallel
            routed = model.moe.experts_per_token * (inner + model.hidden_size)
            dense = dense if model.num_dense_layers else 0.0
        return VALUE_BYTES * (max(dense, routed) + facts.hidden * model.hidden_size)


def _sliding(shard: Shard) -> list[Attention]:
    """The groups of attention layers that have a window and no compressed cache."""
    return [a for a in shard.attentions if a.window is not None and a.stride == 1]


def _rounded(value: float, step: float) -> float:
    """The smallest multiple of `step` that is not below `value`."""
    return math.ceil(value / step) * step


def _group(layers: list[int]) -> int:
    """Number of layers in each group of blocks, which is the same for all groups.

    - layers: number of layers of each kind.
    """
    least = min(layers)
    most = max(layers)
    return most if most < FEW_PADDED * least else least
