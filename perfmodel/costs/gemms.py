"""The dense projections of one device: the weights, FLOPs and activations of each projection, summed over its
layers.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from perfmodel.costs.layout import Degrees
from perfmodel.immutable import Immutable
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
    """A dense projection, with its counts per pass and per token, summed over layers. The numbers are arrays
    if it stands for several projections of one format (`stacked_by_format`).

    - columns: number of output columns of all its GEMMs.
    - gathered: whether the projection runs on the tokens of all data-parallel attention groups.
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
    """Merges projections that have one format and run on the same tokens. The new axis comes before the
    `ndim` token axes.
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


def linear(
    name: str,
    kernels: int,
    widths: tuple[float, float],
    precision: Precision,
    *,
    weights: float = 0.0,
    biases: float = 0.0,
) -> Linear:
    """A projection of `kernels` GEMMs. `widths` are the numbers of inputs and outputs of each GEMM.

    - weights: number of weights of a GEMM, if it is not inputs x outputs.

    The first word of `name` selects the weight format. It is the name of a GEMM in `weights.PARTS`.
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


def linears(model: ModelSpec, degrees: Degrees, precision: Precision) -> Iterator[Linear]:
    """All dense projections of the layers on one device, in the order in which a layer runs them."""
    n = degrees.attend
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
    for projection in _mlp(model, degrees.beside_attention, precision):
        yield projection.replace(gathered=degrees.gathers)


def _projection(projection: Projection, n: int, precision: Precision) -> Linear:
    """An additional projection of a family. The n devices share the inputs or the outputs of the projection
    (`split`).
    """
    inputs = projection.inputs / n if projection.split == "inputs" else projection.inputs
    outputs = projection.outputs / n if projection.split == "outputs" else projection.outputs
    return linear(projection.name, projection.layers, (inputs, outputs), precision)


def _attention(
    model: ModelSpec,
    n: int,
    precision: Precision,
    layers: int,
    heads: AttentionHeads,
    which: str,
    shared: int,
) -> Iterator[Linear]:
    """The projections of attention.

    - shared: number of layers without their own keys and values.
    """
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
    """The projections of attention over a latent (MLA), with the up-projections of keys and values
    absorbed into the query and the output (DeepSeek-V2, arXiv 2405.04434, 2.1). Devices share the heads,
    and each holds the whole latent.
    """
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


def _recurrent(recurrent: LinearAttention, hidden: int, n: int, precision: Precision) -> Iterator[Linear]:
    """The projections of recurrent layers. Devices share the value heads. They also share the key heads
    (groups). If there are fewer key heads than devices, the heads are replicated.
    """
    keys = 2 * recurrent.num_key_heads * recurrent.key_head_dim
    key_share = 2 * math.ceil(recurrent.num_key_heads / n) * recurrent.key_head_dim
    yield linear(
        "state_in", recurrent.layers, (hidden, (recurrent.projected - keys) / n + key_share), precision
    )
    yield linear("state_out", recurrent.layers, (recurrent.inner / n, hidden), precision)


def _mlp(model: ModelSpec, n: int, precision: Precision) -> Iterator[Linear]:
    """The projections of dense MLPs, and those that belong to routed experts: router, shared expert and
    latent.

    - n: devices that share an MLP's width.
    """
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
