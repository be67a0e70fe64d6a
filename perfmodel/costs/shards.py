"""One device's share of a model: everything about a pass that batch, context and query do not change."""

import math
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import InputError
from perfmodel.kv.base import KVLayout
from perfmodel.ops import Floats
from perfmodel.specs.formats import Precision
from perfmodel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Linear:
    """A dense projection: constants per pass and per token. columns: output columns of all its GEMMs."""

    name: str
    kernels: int
    weight_bytes: float
    flops_per_token: float
    activation_bytes_per_token: float
    columns: float


@dataclass(frozen=True, slots=True)
class Small:
    """An element-wise kernel: launches and bytes per token."""

    name: str
    kernels: int
    activation_bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of all MoE layers: what one token computes and what one touched expert costs to read."""

    kernels: int
    num_experts: int
    experts_per_token: int
    expert_weight_bytes: float
    expert_columns: float
    flops_per_token: float
    activation_bytes_per_token: float

    def touched(self, tokens: Floats) -> Floats:
        """Expected distinct experts that independently routed tokens touch: E (1 - (1 - k/E)^t)."""
        if self.experts_per_token == self.num_experts:
            return float(self.num_experts)
        miss = math.log1p(-self.experts_per_token / self.num_experts)
        return self.num_experts * -np.expm1(miss * np.asarray(tokens, float))


@dataclass(frozen=True, slots=True)
class Attention:
    """The layers that share one attention span (`window` None: the whole context)."""

    name: str
    layers: int
    window: int | None


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's share of a model: everything about a pass that batch, context and query do not change."""

    model: ModelSpec
    tensor_parallel: int
    precision: Precision
    linears: tuple[Linear, ...]
    lm_head: Linear
    experts: Experts | None
    smalls: tuple[Small, ...]
    attentions: tuple[Attention, ...]
    layout: KVLayout
    attention_flops_per_pair: float
    attention_activation_bytes_per_token: float
    stored_weight_bytes: float
    kv_page: int = 1

    @property
    def kv_bytes_per_token(self) -> float:
        """KV bytes of one cached token over all layers on this device (kappa), windows left aside."""
        return self.model.num_hidden_layers * self.layout.token_bytes

    def stored_kv_bytes(self, context: Floats) -> Floats:
        """KV bytes one sequence of `context` tokens keeps on this device; sliding layers keep their window."""
        per_token = self.layout.token_bytes
        return sum((a.layers * per_token * self.paged(span(context, a.window)) for a in self.attentions), start=0.0)

    def context_of(self, kv_bytes: float) -> float | None:
        """Context whose cache a pass reads `kv_bytes` of, pages left aside; None where windows keep it below that."""
        start = read = 0.0
        for end in (*sorted({a.window for a in self.attentions if a.window is not None}), np.inf):
            layers = sum(a.layers for a in self.attentions if a.window is None or a.window >= end)
            slope = layers * self.layout.token_bytes
            if slope and read + slope * (end - start) >= kv_bytes:
                return float(start + (kv_bytes - read) / slope)
            start, read = end, read + slope * (end - start) if slope else read
        return None

    def paged(self, tokens: Floats) -> Floats:
        """Cached tokens as the pages hold them: rounded up to whole pages of `kv_page` tokens (1: as they are)."""
        return tokens if self.kv_page == 1 else np.ceil(np.asarray(tokens) / self.kv_page) * self.kv_page


def span(context: Floats, window: int | None) -> Floats:
    """Cached tokens a layer attends to."""
    return context if window is None else np.minimum(context, window)


def check_tensor_parallel(model: ModelSpec, devices: int, flag: str = "--tp") -> None:
    """Refuse a degree that does not divide the query heads."""
    if devices < 1 or model.num_attention_heads % devices:
        allowed = [n for n in range(1, model.num_attention_heads + 1) if model.num_attention_heads % n == 0]
        raise InputError(
            f"{flag}: must divide the {model.num_attention_heads} query heads of {model.name} "
            f"(one of {', '.join(map(str, allowed))}), given {devices}"
        )


def shard(
    model: ModelSpec, tensor_parallel: int, precision: Precision, shards_lm_head: bool = True, kv_page: int = 1
) -> Shard:
    """Work out one device's share.

    Query heads, MLP columns and experts divide by the degree; KV heads divide until there is one per device and are
    replicated past that; an MLA latent is replicated always. kv_page: tokens per page of the cache. Raises InputError
    where the degree does not divide the query heads.
    """
    check_tensor_parallel(model, tensor_parallel)
    n, act = tensor_parallel, precision.activation_bytes
    hidden, heads = model.hidden_size, model.num_attention_heads // tensor_parallel
    mla = model.mla
    kv_heads = 1 if mla else math.ceil(model.num_key_value_heads / n)
    layout = KVLayout(
        num_kv_heads=kv_heads,
        head_dim=mla.latent_dim if mla else model.head_dim,
        values_per_token=mla.latent_dim if mla else 2 * kv_heads * model.head_dim,
        query_heads=heads,
        bytes_per_value=precision.kv.bytes_per_value,
    )
    query_width = heads * (mla.kv_lora_rank + mla.qk_rope_head_dim if mla else model.head_dim)
    output_width = heads * (mla.kv_lora_rank if mla else model.head_dim)
    head_share = n if shards_lm_head else 1
    head = _linear(
        "lm_head", 1, model.embedding_params / head_share, 0, (hidden, model.vocab_size / head_share), precision
    )
    linears = tuple(_attention_linears(model, n, layout, precision)) + tuple(_mlp_linears(model, n, precision))
    experts = _experts(model, n, precision)
    stored_experts = experts.num_experts * experts.expert_weight_bytes if experts else 0.0
    return Shard(
        model=model,
        tensor_parallel=n,
        precision=precision,
        linears=linears,
        lm_head=head,
        experts=experts,
        smalls=tuple(_smalls(model, n, layout, act)),
        attentions=_attentions(model),
        layout=layout,
        attention_flops_per_pair=2.0 * (query_width + output_width),
        attention_activation_bytes_per_token=(query_width + output_width) * act,
        stored_weight_bytes=sum(op.weight_bytes for op in linears)
        + stored_experts
        + head.weight_bytes
        + (0.0 if model.tie_word_embeddings else model.embedding_params * act / n)
        + model.norm_params * act,
        kv_page=kv_page,
    )


def _linear(
    name: str, kernels: int, weights: float, biases: float, widths: tuple[float, float], precision: Precision
) -> Linear:
    return Linear(
        name,
        kernels,
        kernels * (weights * precision.weights.bytes_per_value + biases * precision.activation_bytes),
        kernels * 2.0 * weights,
        kernels * sum(widths) * precision.activation_bytes,
        kernels * widths[1],
    )


def _attention_linears(model: ModelSpec, n: int, layout: KVLayout, precision: Precision) -> list[Linear]:
    layers, hidden, heads = model.num_hidden_layers, model.hidden_size, model.num_attention_heads // n
    if mla := model.mla:
        rank, nope, rope = mla.q_lora_rank, mla.qk_nope_head_dim, mla.qk_rope_head_dim
        down = mla.latent_dim + (rank or 0)
        up_in = rank or hidden
        return [
            _linear("qkv_down", layers, hidden * down, 0, (hidden, down), precision),
            _linear("q_up", layers, up_in * heads * (nope + rope), 0, (up_in, heads * (nope + rope)), precision),
            _linear(
                "absorb_k",
                layers,
                heads * nope * mla.kv_lora_rank,
                0,
                (heads * nope, heads * mla.kv_lora_rank),
                precision,
            ),
            _linear(
                "absorb_v",
                layers,
                heads * mla.v_head_dim * mla.kv_lora_rank,
                0,
                (heads * mla.kv_lora_rank, heads * mla.v_head_dim),
                precision,
            ),
            _linear("o", layers, heads * mla.v_head_dim * hidden, 0, (heads * mla.v_head_dim, hidden), precision),
        ]
    width = (heads + 2 * layout.num_kv_heads) * model.head_dim
    inner = heads * model.head_dim
    return [
        _linear("qkv", layers, hidden * width, width if model.qkv_bias else 0, (hidden, width), precision),
        _linear("o", layers, inner * hidden, hidden if model.output_bias else 0, (inner, hidden), precision),
    ]


def _mlp_linears(model: ModelSpec, n: int, precision: Precision) -> list[Linear]:
    linears = []
    hidden, dense, routed = model.hidden_size, model.num_dense_layers, model.num_moe_layers
    if dense:
        inner = model.intermediate_size / n
        bias = model.mlp_bias
        linears += [
            _linear("gate_up", dense, 2 * hidden * inner, 2 * inner * bias, (hidden, 2 * inner), precision),
            _linear("down", dense, inner * hidden, hidden * bias, (inner, hidden), precision),
        ]
    if moe := model.moe:
        linears.append(
            _linear(
                "router",
                routed,
                hidden * moe.num_experts,
                moe.num_experts * moe.router_bias,
                (hidden, moe.num_experts),
                precision,
            )
        )
        if moe.shared_intermediate_size:
            inner = moe.shared_intermediate_size / n
            linears += [
                _linear("shared_gate_up", routed, 2 * hidden * inner, 0, (hidden, 2 * inner), precision),
                _linear("shared_down", routed, inner * hidden, 0, (inner, hidden), precision),
            ]
    return linears


def _experts(model: ModelSpec, n: int, precision: Precision) -> Experts | None:
    moe, layers = model.moe, model.num_moe_layers
    if not moe:
        return None
    matrices = 3 * model.hidden_size * moe.intermediate_size / n
    biases = (model.expert_params - 3 * model.hidden_size * moe.intermediate_size) / n
    per_token = 2 * model.hidden_size + 3 * moe.intermediate_size / n
    return Experts(
        kernels=2 * layers,
        num_experts=moe.num_experts,
        experts_per_token=moe.experts_per_token,
        expert_weight_bytes=layers
        * (matrices * precision.weights.bytes_per_value + biases * precision.activation_bytes),
        expert_columns=layers * (2 * moe.intermediate_size / n + model.hidden_size),
        flops_per_token=layers * moe.experts_per_token * 2.0 * matrices,
        activation_bytes_per_token=layers * moe.experts_per_token * per_token * precision.activation_bytes,
    )


def _smalls(model: ModelSpec, n: int, layout: KVLayout, act: float) -> list[Small]:
    layers, hidden = model.num_hidden_layers, model.hidden_size
    rotated = model.num_attention_heads // n * model.head_dim + layout.values_per_token
    norms = model.norms_per_layer * layers + 1
    inner = model.num_dense_layers * model.intermediate_size / n
    gates = model.num_dense_layers + model.num_moe_layers
    if model.moe:
        expert_width = model.moe.experts_per_token * model.moe.intermediate_size + model.moe.shared_intermediate_size
        inner += model.num_moe_layers * expert_width / n
    smalls = [
        Small("embedding", 1, 2 * hidden * act),
        Small("norms", norms, norms * 2 * hidden * act),
        Small("rope", layers, layers * 2 * rotated * act),
        Small("kv append", layers, layers * layout.values_per_token * act),
        Small("activation", gates, 3 * inner * act),
        Small("residual", 2 * layers, layers * 2 * 3 * hidden * act),
    ]
    if model.qk_norm:
        smalls.append(Small("qk norm", layers, layers * 2 * rotated * act))
    if model.moe:
        smalls.append(Small("routing", 2 * model.num_moe_layers, model.num_moe_layers * model.moe.num_experts * act))
    return smalls


def _attentions(model: ModelSpec) -> tuple[Attention, ...]:
    full = model.num_hidden_layers - model.num_sliding_layers
    groups = []
    if full:
        groups.append(Attention("full", full, None))
    if model.num_sliding_layers:
        groups.append(Attention(f"window {model.sliding_window}", model.num_sliding_layers, model.sliding_window))
    return tuple(groups)
