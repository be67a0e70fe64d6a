"""The GEMMs of one device: weights, FLOPs and activations of each projection, summed over its layers."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.specs import (
    MLA,
    AttentionHeads,
    Format,
    Indexer,
    LinearAttention,
    ModelSpec,
    Precision,
    Projection,
)


class Linear(Immutable):
    """A dense projection: constants per pass and per token. columns: output columns of all its GEMMs.

    Numbers are arrays if it stands for several projections of one format (`stacks`). gathered: whether it
    runs for the tokens of all data-parallel attention groups.
    """

    name: str
    form: Format
    kernels: int
    weight_bytes: float
    flops_per_token: float
    activation_bytes_per_token: float
    columns: float
    gathered: bool = False


def stacked_by_format(projections: Iterable[Linear], ndim: int) -> tuple[Linear, ...]:
    """Merges projections of one format that run on the same tokens, on an axis before the `ndim`
    token axes.
    """
    by_format: dict[tuple[Format, bool], list[Linear]] = {}
    for one in projections:
        by_format.setdefault((one.form, one.gathered), []).append(one)

    def stacked(alike: list[Linear], name: str) -> Any:
        return np.array([getattr(one, name) for one in alike], float).reshape(-1, *(1,) * ndim)

    numbers = [name for name in Linear.__struct_fields__ if name not in ("name", "form", "gathered")]
    return tuple(
        Linear(form.name, form, **{name: stacked(alike, name) for name in numbers}, gathered=gathered)
        for (form, gathered), alike in by_format.items()
    )


class Experts(Immutable):
    """Routed experts of all MoE layers: the work of one token, and the cost of reading one touched expert.

    num_experts: with redundant copies. popularity: shape of the gamma distribution of the experts' shares of
    the tokens; 0 means equally likely experts. groups: expert-parallel groups of devices. Each expert is
    split within its group only, and a pass waits for the group with the most touched experts. architecture:
    of the model (``model_type``).
    """

    form: Format
    layers: int
    kernels: int
    num_experts: int
    experts_per_token: int
    expert_weight_bytes: float
    expert_columns: float
    flops_per_token: float
    activation_bytes_per_token: float
    routed_bytes_per_token: float
    popularity: float
    groups: int
    architecture: str = ""

    @property
    def held_bytes(self) -> float:
        """Weights of all experts that one device holds."""
        return self.num_experts / self.groups * self.expert_weight_bytes

    def touched(self, tokens: Floats) -> Floats:
        """Expected distinct experts that independently routed tokens touch."""
        return touched(self.num_experts, self.experts_per_token, tokens, self.popularity)

    def fullest(self, tokens: Floats) -> Floats:
        """Expected distinct experts that such tokens touch in the fullest group, at most all that it holds.

        Each of the H experts of a group is touched with probability p, so a group touches H p experts with
        standard deviation sqrt(H p (1 - p)), taken as normal (`deviations_of_largest`).
        """
        experts_of_group = self.num_experts / self.groups
        share = self.touched(tokens) / self.num_experts
        most = deviations_of_largest(self.groups)
        mean = experts_of_group * share
        deviation = np.sqrt(mean * (1.0 - share))
        return np.minimum(mean + most * deviation, experts_of_group)


def deviations_of_largest(numbers: int) -> float:
    """Standard deviations by which the largest of G normal numbers exceeds their mean.

    It has the rank q = (G - 3/8) / (G + 1/4) (Blom 1958). That rank is 4.91 (q^0.14 - (1 - q)^0.14)
    deviations above the mean (Tukey's lambda).
    """
    rank = (numbers - 0.375) / (numbers + 0.25)
    return float(4.91 * (rank**0.14 - (1.0 - rank) ** 0.14))


def imbalance_of(experts: int, groups: int, spread: float) -> float:
    """Tokens of the fullest of the groups over the mean, where the shares of experts have this relative
    standard deviation and each group holds as many of them.
    """
    return 1.0 + spread * deviations_of_largest(groups) / math.sqrt(experts / groups)


def touched(experts: float, per_token: float, tokens: Floats, popularity: float) -> Floats:
    """Expected number of distinct experts, of E, that t tokens touch if each chooses k: E (1 - (1 - k/E)^t).

    With unequal shares x ~ Gamma(a), an expert stays idle with probability e^(-x t). The number is then E (1
    - (1 + b t)^-a), with b such that one token touches k experts. For large a it tends to the formula above.
    popularity: a, see `Experts`.
    """
    if per_token == experts:
        return float(experts)
    miss = math.log1p(-per_token / experts)
    if popularity:
        b = math.expm1(-miss / popularity)
        return experts * -np.expm1(-popularity * np.log1p(b * tokens))
    return experts * -np.expm1(miss * tokens)


def linear(
    name: str,
    kernels: int,
    widths: tuple[float, float],
    precision: Precision,
    *,
    weights: float = 0.0,
    biases: float = 0.0,
) -> Linear:
    """A projection of `kernels` GEMMs with widths (inputs, outputs). weights: their number, if it is not
    inputs x outputs.

    The first word of the name is that of `formats.PARTS`.
    """
    inputs, outputs = widths
    form = precision.weights.of(name.partition(" ")[0])
    act = precision.activation_bytes
    weights = weights or inputs * outputs
    weight_bytes = weights * form.bytes_per_value + biases * act
    activation_bytes = inputs * (form.input_bytes or act) + outputs * act
    return Linear(
        name,
        form,
        kernels,
        kernels * weight_bytes,
        kernels * 2.0 * weights,
        kernels * activation_bytes,
        kernels * outputs,
    )


def linears(
    model: ModelSpec, devices: int, precision: Precision, groups: int, exchanges: bool = False
) -> Iterator[Linear]:
    """All dense projections of the layers on one device, in the order of a layer.

    groups: data-parallel attention groups. Each has all of attention for its own sequences; the other
    projections are split across all devices. exchanges: whether tokens leave their group for routed experts
    only, so that each group has all other projections for its own sequences.
    """
    n = devices // groups
    if model.mla:
        yield from _latent(model, model.mla, n, precision)
    else:
        sliding = model.num_sliding_layers
        full = model.num_attention_layers - model.num_sliding_layers
        shared = model.shared_kv_layers
        slides = model.shared_kv_sliding
        if not model.sliding_heads:
            yield from _attention(model, n, precision, full + sliding, model.heads(), "", shared + slides)
        else:
            yield from _attention(model, n, precision, full, model.heads(), "", shared)
            yield from _attention(model, n, precision, sliding, model.sliding_heads, " (sliding)", slides)
        if model.indexer:
            rank = model.low_rank.query_rank if model.low_rank else model.hidden_size
            yield from _indexer(model.indexer, rank, model.hidden_size, precision)
    if model.linear_attention:
        yield from _recurrent(model.linear_attention, model.hidden_size, n, precision)
    yield from (_projection(each, n, precision) for each in model.projections)
    gathered = groups > 1 and not exchanges
    shared_by = devices if gathered else n
    yield from (one.replace(gathered=gathered) for one in _mlp(model, shared_by, precision))


def _projection(one: Projection, n: int, precision: Precision) -> Linear:
    into, out_of = {"inputs": (n, 1), "outputs": (1, n), "none": (1, 1)}[one.split]
    return linear(one.name, one.layers, (one.inputs / into, one.outputs / out_of), precision)


def _attention(
    model: ModelSpec,
    n: int,
    precision: Precision,
    layers: int,
    heads: AttentionHeads,
    which: str,
    shared: int,
) -> Iterator[Linear]:
    """The projections of attention. shared: layers among these without their own keys and values."""
    if not layers:
        return
    hidden = model.hidden_size
    query_heads = heads.num_attention_heads // n
    columns = heads.kv_columns // heads.num_key_value_heads * math.ceil(heads.num_key_value_heads / n)
    query = query_heads * heads.head_dim * (2 if model.attention_gate else 1)
    inner = query_heads * heads.value_dim
    if low := model.low_rank:
        rank = low.output_rank
        yield linear("qkv" + which, layers, (hidden, low.query_rank + columns), precision)
        yield linear("q_up", layers, (low.query_rank, query), precision)
        yield linear("o_down", layers, (inner, low.output_groups * rank / n), precision, weights=inner * rank)
        yield linear("o" + which, layers, (low.output_groups * rank / n, hidden), precision)
        return
    if layers > shared:
        width = query + columns
        yield linear(
            "qkv" + which, layers - shared, (hidden, width), precision, biases=width * model.qkv_bias
        )
    if shared:
        yield linear(
            "qkv (shared)" + which, shared, (hidden, query), precision, biases=query * model.qkv_bias
        )
    yield linear("o" + which, layers, (inner, hidden), precision, biases=hidden * model.output_bias)


def _latent(model: ModelSpec, mla: MLA, n: int, precision: Precision) -> Iterator[Linear]:
    layers = model.num_attention_layers
    hidden = model.hidden_size
    heads = model.num_attention_heads // n
    nope = mla.qk_nope_head_dim
    latent = mla.kv_lora_rank
    inputs = mla.q_lora_rank or hidden
    query = heads * (nope + mla.qk_rope_head_dim)
    yield linear("qkv_down", layers, (hidden, mla.latent_dim + (mla.q_lora_rank or 0)), precision)
    yield linear("q_up", layers, (inputs, query), precision)
    if model.indexer:
        yield from _indexer(model.indexer, inputs, hidden, precision)
    keys = heads * nope
    values = heads * mla.v_head_dim
    latents = heads * latent
    yield linear("absorb_k", layers, (keys, latents), precision, weights=keys * latent)
    yield linear("absorb_v", layers, (latents, values), precision, weights=values * latent)
    yield linear("o", layers, (values, hidden), precision)


def _indexer(indexer: Indexer, rank: int, hidden: int, precision: Precision) -> Iterator[Linear]:
    """The indexer's projections, which every device holds whole (vLLM, models/deepseek_v2.py)."""
    if indexer.layers:
        yield linear("index_q", indexer.layers, (rank, indexer.num_heads * indexer.head_dim), precision)
        yield linear("index_k", indexer.layers, (hidden, indexer.key_columns), precision)


def _recurrent(part: LinearAttention, hidden: int, n: int, precision: Precision) -> Iterator[Linear]:
    """The projections of recurrent layers. Devices share the value heads. They also share key heads (groups)
    down to one per device, and replicate them beyond that.
    """
    keys = 2 * part.num_key_heads * part.key_head_dim
    key_share = 2 * math.ceil(part.num_key_heads / n) * part.key_head_dim
    yield linear("state_in", part.layers, (hidden, (part.projected - keys) / n + key_share), precision)
    yield linear("state_out", part.layers, (part.inner / n, hidden), precision)


def _mlp(model: ModelSpec, n: int, precision: Precision) -> Iterator[Linear]:
    hidden = model.hidden_size
    dense = model.num_dense_layers
    routed = model.num_moe_layers
    up = model.mlp_matrices - 1
    if dense:
        inner = model.intermediate_size / n
        bias = model.mlp_bias
        yield linear("gate_up", dense, (hidden, up * inner), precision, biases=up * inner * bias)
        yield linear("down", dense, (inner, hidden), precision, biases=hidden * bias)
    if moe := model.moe:
        yield linear(
            "router", routed, (hidden, moe.num_experts), precision, biases=moe.num_experts * moe.router_bias
        )
        if moe.shared_intermediate_size:
            inner = moe.shared_intermediate_size / n
            yield linear("shared_gate_up", routed, (hidden, up * inner), precision)
            yield linear("shared_down", routed, (inner, hidden), precision)
        if moe.latent_size:  # whole on every device (vLLM, models/nemotron_h.py)
            yield linear("latent_in", routed, (hidden, moe.latent_size), precision)
            yield linear("latent_out", routed, (moe.latent_size, hidden), precision)


def experts(
    model: ModelSpec,
    devices: int,
    precision: Precision,
    popularity: float,
    groups: int,
    redundant: int = 0,
    imbalance: float = 1.0,
    exchanges: bool = False,
) -> Experts | None:
    """The routed experts, each split across the devices of one group. popularity, groups: see `Experts`.

    redundant: further copies of experts. imbalance: tokens of the fullest group over the mean. exchanges:
    whether a group gets only the tokens of its own experts; by default every group gets all tokens.
    """
    moe = model.moe
    layers = model.num_moe_layers
    if not moe:
        return None
    form = precision.weights.of("experts")
    act = precision.activation_bytes
    n = devices // groups
    outer = moe.latent_size or model.hidden_size
    inner = moe.intermediate_size / n
    up = model.mlp_matrices - 1
    matrices = (up + 1) * outer * inner
    biases = model.expert_params / n - matrices
    columns = up * inner + outer
    weight_bytes = matrices * form.bytes_per_value + biases * act
    per_token = (outer + inner) * (form.input_bytes or act) + columns * act
    experts_met = layers * moe.experts_per_token  # by a token in all layers
    return Experts(
        form=form,
        layers=layers,
        kernels=2 * layers,
        num_experts=moe.num_experts + redundant,
        experts_per_token=moe.experts_per_token,
        expert_weight_bytes=layers * weight_bytes,
        expert_columns=layers * columns,
        flops_per_token=experts_met * 2.0 * matrices / groups * imbalance,
        activation_bytes_per_token=experts_met * per_token / groups * imbalance,
        routed_bytes_per_token=experts_met * outer * act / (groups if exchanges else 1),
        popularity=popularity,
        groups=groups,
        architecture=model.model_type,
    )
