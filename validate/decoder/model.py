"""The forward pass of a decoder of the Llama family. The caller's function `attend` computes attention, so it
decides which tokens are read.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec, MoE
from perfmodel.validate.decoder import rope
from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.fp8 import by_row, row_peaks
from perfmodel.validate.decoder.pointwise import Pointwise, Rotary, Turns, norm
from perfmodel.validate.decoder.shard import RankShard

Tap = Callable[[int, Tensor], None]
"""A function that receives the number and the input of each layer."""


@dataclass(frozen=True)
class Projected:
    """The queries, keys and values of a layer before rotation.

    - qkv: [batch, n, all heads x head_dim].
    """

    layer: "Layer"
    qkv: Tensor
    turns: Turns
    pointwise: Pointwise

    def rotate(
        self, out: tuple[Tensor, Tensor] | None = None, slots: Slots | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, heads or kv_heads, n, head_dim]. Queries and keys are normalised
        if the layer has norms for them, and then rotated.

        - out: tensors to which keys and values are written. They are then the returned keys and values.
        - slots: slots of a cache to which keys and values are also written.
        """
        return self.pointwise.rotate(self, out, slots)


Attend = Callable[[int, Projected], Tensor]
"""A function of the caller. It receives the number of a layer and its projections, and returns the attention
output [batch, n, heads x head_dim].
"""


class MLP(nn.Module):
    """A gated MLP. The gate and up projections are one matrix."""

    def __init__(self, spec: ModelSpec, inner: int, down_bias: bool) -> None:
        super().__init__()
        self.gate_up = nn.Linear(spec.hidden_size, 2 * inner, bias=spec.mlp_bias)
        self.down = nn.Linear(inner, spec.hidden_size, bias=down_bias)

    def forward(self, x: Tensor, pointwise: Pointwise) -> Tensor:
        """The output for x [batch, n, hidden], of the same shape."""
        return self.down(pointwise.silu_mul(self.gate_up(x)))


class RoutedExperts(nn.Module):
    """The experts, which are gated MLPs, and their router. A tensor-parallel rank has a part of each expert.

    The router sends every token to a few experts. Two grouped matrix products compute all experts.

    - scales: the scales of fp8 matrices, by name, [num_experts, outputs].
    """

    def __init__(self, moe: MoE, hidden: int, inner: int) -> None:
        super().__init__()
        self.chosen = moe.experts_per_token
        self.normalized = moe.normalized_weights
        self.router = nn.Parameter(torch.empty(moe.num_experts, hidden))
        self.gate_up = nn.Parameter(torch.empty(moe.num_experts, 2 * inner, hidden))
        self.down = nn.Parameter(torch.empty(moe.num_experts, hidden, inner))
        self.scales = nn.ParameterDict()

    def forward(self, x: Tensor, pointwise: Pointwise) -> Tensor:
        """The output for x [batch, n, hidden], of the same shape. The host does not wait for the device."""
        rows = x.flatten(0, 1)
        weights, experts = F.linear(rows, self.router).float().softmax(1).topk(self.chosen, dim=1)
        if self.normalized:
            weights = weights / weights.sum(1, keepdim=True)
        experts, order = experts.flatten().sort(stable=True)
        gate_up_scale = self.scales["gate_up"] if self.scales else None
        down_scale = self.scales["down"] if self.scales else None
        gate_up = pointwise.by_expert(rows[order // self.chosen], self.gate_up, experts, gate_up_scale)
        out = pointwise.by_expert(pointwise.silu_mul(gate_up), self.down, experts, down_scale)
        out = out[order.argsort()].unflatten(0, (-1, self.chosen))
        return (out * weights[..., None].to(x.dtype)).sum(1).view_as(x)

    def hold(self, name: str, weight: Tensor, peaks: Tensor) -> None:
        """Quantises a stack of matrices [num_experts, outputs, inputs] and stores it.

        - name: ``gate_up`` or ``down``.
        - peaks: the largest absolute value in each row of the matrices, [num_experts, outputs].
        """
        codes, scale = by_row(weight.flatten(0, 1), peaks.view(-1, 1))
        setattr(self, name, nn.Parameter(codes.view(weight.shape), requires_grad=False))
        self.scales[name] = nn.Parameter(scale.view(weight.shape[:2]), requires_grad=False)

    def quantise(self) -> None:
        """Quantises both stacks, but not the router."""
        for name in ("gate_up", "down"):
            weight = getattr(self, name).detach()
            self.hold(name, weight, row_peaks(weight))


class Layer(nn.Module):
    """Attention and MLP (or experts), each after a norm. The projections of queries, keys and values are one
    matrix.

    - window: the number of tokens to which a token attends, including itself; None for all.
    """

    def __init__(self, spec: ModelSpec, shard: RankShard, index: int) -> None:
        super().__init__()
        first, last = shard.kv_heads(spec.num_key_value_heads)
        self.heads = spec.num_attention_heads // shard.size
        self.kv_heads = last - first
        self.head_dim = spec.head_dim
        # if only some layers have a sliding window, they are the last (Qwen)
        slides = index >= spec.num_hidden_layers - spec.num_sliding_layers
        self.eps = spec.rms_norm_eps
        self.window = spec.sliding_window if slides else None
        width = self.heads * self.head_dim
        first_rank = shard.rank == 0
        self.attention_norm = nn.Parameter(torch.empty(spec.hidden_size))
        self.qkv = nn.Linear(spec.hidden_size, width + 2 * self.kv_heads * self.head_dim, bias=spec.qkv_bias)
        self.q_norm = nn.Parameter(torch.empty(spec.head_dim)) if spec.qk_norm else None
        self.k_norm = nn.Parameter(torch.empty(spec.head_dim)) if spec.qk_norm else None
        self.output = nn.Linear(width, spec.hidden_size, bias=spec.output_bias and first_rank)
        self.mlp_norm = nn.Parameter(torch.empty(spec.hidden_size))
        if spec.moe and index >= spec.moe.first_dense_layers:
            inner = spec.moe.intermediate_size // shard.size
            self.mlp: MLP | RoutedExperts = RoutedExperts(spec.moe, spec.hidden_size, inner)
        else:
            self.mlp = MLP(spec, spec.intermediate_size // shard.size, spec.mlp_bias and first_rank)


class Model(nn.Module):
    """A decoder-only transformer of the shape `spec`, or the part of one tensor-parallel rank.

    - pointwise: the implementation of the steps between matrix products. Fused kernels have no gradients.
    """

    def __init__(self, spec: ModelSpec, shard: RankShard | None = None) -> None:
        super().__init__()
        check_supported(spec)
        self.spec = spec
        self.shard = shard or RankShard()
        self.shard.check(spec)
        rows = spec.vocab_size // self.shard.size
        self.embedding = nn.Parameter(torch.empty(rows, spec.hidden_size))
        self.layers = nn.ModuleList(Layer(spec, self.shard, index) for index in range(spec.num_hidden_layers))
        self.final_norm = nn.Parameter(torch.empty(spec.hidden_size))
        self.head = None if spec.tie_word_embeddings else nn.Parameter(torch.empty(rows, spec.hidden_size))
        self.pointwise = Pointwise()

    @property
    def kv_heads(self) -> int:
        """The number of KV heads that this rank caches."""
        first, last = self.shard.kv_heads(self.spec.num_key_value_heads)
        return last - first

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and activations."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.device

    def rotary(self, tokens: int) -> Rotary:
        """The rotary embedding for sequences of at most `tokens`."""
        return rope.rotary(self.spec, self.device, tokens)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        rotary: Rotary | None = None,
        tap: Tap | None = None,
    ) -> Tensor:
        """The final hidden states [batch, n, hidden] of tokens [batch, n] at positions [batch, n].

        - tap: called with the input of each layer.
        """
        turns = (rotary or self.rotary(tokens.shape[1])).turns(positions, self.dtype)
        residual = self._embed(tokens)
        add_norm = self.pointwise.add_norm
        eps = self.spec.rms_norm_eps
        x = norm(residual, self.layers[0].attention_norm, eps)
        norms = [*(layer.attention_norm for layer in self.layers[1:]), self.final_norm]
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            if tap is not None:
                tap(index, residual)
            attended = attend(index, Projected(layer, layer.qkv(x), turns, self.pointwise))
            output = self.shard.sum(layer.output(attended))
            residual, x = add_norm(output, residual, layer.mlp_norm, eps)
            mlp_output = self.shard.sum(layer.mlp(x, self.pointwise))
            residual, x = add_norm(mlp_output, residual, next_norm, eps)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits [..., vocab_size] of hidden states [..., hidden]."""
        head = self.embedding if self.head is None else self.head
        return self.shard.gather_last(F.linear(hidden, head))

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.shard.size == 1:
            return F.embedding(tokens, self.embedding)
        first, last = self.shard.split(self.spec.vocab_size)
        of_rank = (tokens >= first) & (tokens < last)
        rows = F.embedding((tokens - first).clamp(0, last - first - 1), self.embedding)
        return self.shard.sum(rows * of_rank[..., None].to(rows.dtype))


FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "phi3", "mixtral", "qwen3_moe")
"""Values of ``model_type`` that this decoder runs."""


def check_supported(spec: ModelSpec) -> None:
    """Raises InputError for a model with layers that this decoder does not have."""
    scaling = spec.rope_scaling
    moe = spec.moe
    factors = {len(scaling.short_factor), len(scaling.long_factor)} if scaling else set()
    reason = None
    if spec.model_type not in FAMILIES:
        reason = f"its model_type is {spec.model_type!r}"
    elif spec.mla or spec.attention_sinks or spec.norms_per_layer != 2:
        reason = "it has latent attention, attention sinks or extra norms"
    elif moe and (moe.shared_intermediate_size or moe.router_bias or moe.expert_bias):
        reason = "it has shared experts, or biases in its experts or their router"
    elif scaling and scaling.rope_type not in rope.SCALINGS:
        reason = f"its rope_type is {scaling.rope_type!r}"
    elif spec.rotary_dim % 2:
        reason = f"its rotary width is {spec.rotary_dim}, which must be even"
    elif scaling and scaling.rope_type == "longrope" and factors != {spec.rotary_dim // 2}:
        reason = f"its rope_scaling must have {spec.rotary_dim // 2} short and as many long factors"
    if reason:
        raise InputError(
            f"model {spec.name}: must be of family {', '.join(FAMILIES)} to be run here; {reason}"
        )
