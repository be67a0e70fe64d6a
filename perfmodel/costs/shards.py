"""One device's share of a model: everything in a pass that does not depend on batch, context and query."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from perfmodel.costs.gemms import Experts, Linear, experts, linear, linears, stacked_by_format
from perfmodel.costs.graphs import padded
from perfmodel.errors import InputError
from perfmodel.kv.base import KVLayout
from perfmodel.operations import Floats
from perfmodel.specs import WEIGHT_FORMATS, ModelSpec, Precision

INDEX_KEY_BYTES = WEIGHT_FORMATS["fp8-block"].input_bytes or 1.0
"""Bytes of one value of an indexer's cached key: fp8 with a scale per 128 (vLLM, models/deepseek_v2.py)."""


@dataclass(frozen=True, slots=True)
class Small:
    """An element-wise kernel: launches, and bytes per token. expert_layers: see `Op`, for routed experts.
    gathered: see `Linear`.
    """

    name: str
    kernels: int
    activation_bytes_per_token: float
    expert_layers: int = 0
    gathered: bool = False


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers with the same attention span (`window` None: the whole context) and cache layout.

    topk: cached tokens per query token that an indexer chooses; None: all in the span. stride: tokens per
    cached entry. With more than 1, one kernel reads these entries and the window of the same layers, so its
    launches are counted there. shared: layers among these that keep no cache. prompt_flops_per_pair: FLOPs in
    a pass over an empty cache, where MLA is not absorbed and its heads have their own keys and values (vLLM,
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
        """Cached entries that a layer attends to."""
        entries = context if self.stride == 1 else context / self.stride
        return entries if self.window is None else np.minimum(entries, self.window)


@dataclass(frozen=True, slots=True)
class States:
    """The recurrent layers: bytes of one sequence's state over all of them, and the work of one token.

    bytes_per_input: bytes of one more input of the convolution; engines keep one for each drafted token.
    """

    name: str
    layers: int
    bytes_per_sequence: float
    flops_per_token: float
    activation_bytes_per_token: float
    bytes_per_input: float


@dataclass(frozen=True, slots=True)
class Layout:
    """What a model's place beyond a box adds to its tensor-parallel degree and groups.

    imbalance: tokens of the fullest group of experts over the mean. For the rest see `Shard` and `experts`.
    """

    exchanges: bool = False
    redundant_experts: int = 0
    imbalance: float = 1.0
    stages: int = 1
    micro_batches: int = 1


ONE_BOX = Layout()
"""One group of devices of one server."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's share of a model: everything in a pass that does not depend on batch, context and query.

    expert_bytes: weights of all routed experts that the device holds; part of stored_weight_bytes.
    graph_sizes: tokens of the captured CUDA graphs (`graphs.padded`); empty without graphs. groups:
    data-parallel attention groups, each with all of attention for its own sequences; 1 without. exchanges:
    whether an all-to-all library sends each token to the ranks of its experts. stages: pipeline stages, each
    with a part of the layers; the ops of a pass are those of all stages. micro_batches: parts into which a
    pass is cut to overlap computing and communicating. itemised:
    whether a pass lists every op. `summed` is the same share with fewer, larger ops of the same total time.
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
    itemised: bool = True
    _stacks: dict[tuple[int, bool], tuple[Linear, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def summed(self) -> "Shard":
        """The same share with fewer ops for a pass: projections of one format are stacked, element-wise
        kernels are summed. The time of a pass is unchanged, its list of ops is not.
        """
        lumps = []
        for expert_layers, gathered in sorted(
            {(small.expert_layers, small.gathered) for small in self.smalls}
        ):
            alike = [s for s in self.smalls if (s.expert_layers, s.gathered) == (expert_layers, gathered)]
            kernels = sum(s.kernels for s in alike)
            per_token = sum(s.activation_bytes_per_token for s in alike)
            lumps.append(Small("element-wise", kernels, per_token, expert_layers, gathered))
        return replace(self, smalls=tuple(lumps), itemised=False, _stacks={})

    def projections(self, ndim: int, with_head: bool) -> tuple[Linear, ...]:
        """All projections, including the LM head if `with_head`. In a `summed` share those of one format are
        stacked, on an axis before the last `ndim` axes.
        """
        if self.itemised:
            return self.linears
        if (key := (ndim, with_head)) not in self._stacks:
            self._stacks[key] = stacked_by_format(
                (*self.linears, self.lm_head) if with_head else self.linears, ndim
            )
        return self._stacks[key]

    def sequences(self, batch: Floats) -> Floats:
        """The sequences of a batch in one pass of the fullest data-parallel attention group.

        Each pipeline stage works on its own part of the batch at a time.
        """
        parts = self.groups * self.stages
        if parts == 1:
            return batch
        return np.ceil(batch / parts)

    def rows(self, tokens: Floats) -> Floats:
        """Tokens that the kernels of a pass run on."""
        return padded(tokens, self.graph_sizes)

    @property
    def _index_bytes(self) -> float:
        """Bytes of the indexer's key of one token, which every device holds whole."""
        index = self.model.indexer
        if index:
            return index.layers * index.head_dim * INDEX_KEY_BYTES / index.stride
        return 0.0

    def stored_kv_bytes(self, context: Floats, states: Floats = 1.0) -> Floats:
        """Bytes that one sequence of `context` tokens keeps on this device. Sliding layers keep their window.

        states: copies of a recurrent state; verification may keep one more for each drafted token.
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
        """The context whose cache has `kv_bytes`, ignoring pages; None where windows keep every cache below
        that size.
        """
        spans: list[tuple[int | None, float]] = [(None, self._index_bytes)]
        for a in self.attentions:
            chosen = a.topk and a.topk * a.stride
            spans.append((a.window or chosen, a.layers * a.layout.token_bytes / a.stride))
        start = read = 0.0
        for end in (*sorted({window for window, _ in spans if window is not None}), np.inf):
            slope = sum(each for window, each in spans if window is None or window >= end)
            if (
                read + slope * (end - start) >= kv_bytes
            ):  # without layers that grow no number: 0 times infinity
                return float(start + (kv_bytes - read) / slope)
            read = read + slope * (end - start)
            start = end
        return None

    def paged(self, tokens: Floats) -> Floats:
        """Cached tokens rounded up to whole pages of `kv_page` tokens (1: unchanged)."""
        if self.kv_page == 1:
            return tokens
        return np.ceil(tokens / self.kv_page) * self.kv_page


def _divisible(model: ModelSpec) -> int:
    """Counts that a tensor-parallel degree must divide."""
    heads = math.gcd(model.num_attention_heads, model.heads(sliding=True).num_attention_heads)
    return math.gcd(heads, model.linear_attention.num_value_heads) if model.linear_attention else heads


def largest_degree(model: ModelSpec, devices: int) -> int:
    """The largest degree that the model allows and that divides `devices`."""
    return math.gcd(_divisible(model), devices)


def check_tensor_parallel(model: ModelSpec, devices: int, flag: str = "--tp") -> None:
    """Refuse (InputError) a degree that does not divide the query heads, or the value heads of recurrent
    layers.
    """
    heads = _divisible(model)
    if devices < 1 or heads % devices:
        allowed = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise InputError(
            f"{flag}: must divide the {heads} query heads of {model.name} (one of {allowed}), given {devices}"
        )


def shard(
    model: ModelSpec,
    tensor_parallel: int,
    precision: Precision,
    shards_lm_head: bool = True,
    kv_page: int = 1,
    *,
    popularity: float = 0.0,
    graph_sizes: tuple[int, ...] = (),
    groups: int = 1,
    expert_groups: int = 1,
    layout: Layout = ONE_BOX,
) -> Shard:
    """One device's share of a model.

    The degree divides query heads, MLP columns and experts. It divides KV heads down to one per device and
    replicates them beyond that. An MLA latent and an indexer are always replicated. kv_page: tokens per page
    of the cache. popularity, expert_groups: see `Experts`. graph_sizes, groups: see `Shard`. layout: beyond
    a box. Raises InputError if the degree does not divide the query heads.
    """
    attends = tensor_parallel // groups
    check_tensor_parallel(model, attends)
    n = tensor_parallel
    act = precision.activation_bytes
    hidden = model.hidden_size
    exchanges = layout.exchanges and groups > 1 and model.moe is not None
    shared_by = attends if exchanges else n
    head_devices = shared_by if shards_lm_head else 1
    head = linear("lm_head", 1, (hidden, model.vocab_size / head_devices), precision)
    head = replace(head, gathered=groups > 1 and not exchanges)
    gemms = tuple(linears(model, n, precision, groups, exchanges))
    redundant = layout.redundant_experts if model.moe else 0
    routed = experts(model, n, precision, popularity, expert_groups, redundant, layout.imbalance)
    attentions = _attentions(model, attends, precision)
    expert_bytes = routed.held_bytes if routed else 0.0
    embedding_bytes = 0.0
    if not model.tie_word_embeddings:
        value_bytes = precision.weights.of("embedding").bytes_per_value
        embedding_bytes = model.embedding_params * value_bytes / shared_by
    vector_bytes = (model.norm_params + model.table_params / n) * act
    matrix_bytes = sum(op.weight_bytes for op in gemms) / model.loops + expert_bytes + head.weight_bytes
    stored_bytes = (matrix_bytes + embedding_bytes + vector_bytes) / layout.stages
    return Shard(
        model=model,
        tensor_parallel=n,
        precision=precision,
        linears=gemms,
        lm_head=head,
        experts=routed,
        smalls=tuple(_smalls(model, n, groups, attentions, act, exchanges)),
        attentions=attentions,
        states=_states(model, attends, act),
        expert_bytes=expert_bytes / layout.stages,
        stored_weight_bytes=stored_bytes,
        kv_page=kv_page,
        graph_sizes=graph_sizes,
        groups=groups,
        exchanges=exchanges,
        stages=layout.stages,
        micro_batches=layout.micro_batches,
    )


def _attentions(model: ModelSpec, n: int, precision: Precision) -> tuple[Attention, ...]:
    full = model.num_attention_layers - model.num_sliding_layers
    dense = model.indexer.dense_layers if model.indexer else full
    groups = []
    if dense:
        groups.append(_span(model, n, precision, "full", dense, None))
    if full - dense:
        chosen = _span(model, n, precision, "chosen" if dense else "full", full - dense, None)
        groups.append(replace(chosen, topk=model.indexer.topk if model.indexer else None))
    if model.mla and (bare := model.mla.unrotated_layers):
        latent = replace(
            groups[0].layout, head_dim=model.mla.kv_lora_rank, values_per_token=model.mla.kv_lora_rank
        )
        rotated = replace(groups[0], layers=groups[0].layers - bare)
        groups = [rotated, replace(groups[0], name="unrotated", layers=bare, layout=latent), *groups[1:]]
    if groups and model.shared_kv_layers:
        groups[0] = replace(groups[0], shared=model.shared_kv_layers)
    for part in model.compressed:
        topk = model.indexer.topk if model.indexer and part.chosen else None
        every = _span(model, n, precision, f"every {part.stride}", part.layers, None)
        groups.append(replace(every, topk=topk, stride=part.stride, activation_bytes_per_token=0.0))
    if model.num_sliding_layers:
        slides = _span(
            model,
            n,
            precision,
            f"window {model.sliding_window}",
            model.num_sliding_layers,
            model.sliding_window,
        )
        groups.append(replace(slides, shared=model.shared_kv_sliding))
    return tuple(groups)


def _span(
    model: ModelSpec, n: int, precision: Precision, name: str, layers: int, window: int | None
) -> Attention:
    """One group of layers. MLA is in absorbed form: one KV head that all query heads share."""
    heads = model.heads(sliding=window is not None)
    query_heads = heads.num_attention_heads // n
    if mla := model.mla:
        kv_heads = 1
        key = mla.latent_dim
        value = mla.kv_lora_rank
        values = mla.latent_dim
        fresh = mla.qk_nope_head_dim + mla.qk_rope_head_dim + mla.v_head_dim
    else:
        kv_heads = math.ceil(heads.num_key_value_heads / n)
        key = heads.head_dim
        value = heads.value_dim
        values = kv_heads * heads.kv_values // heads.num_key_value_heads
        fresh = key + value
    layout = KVLayout(
        num_kv_heads=kv_heads,
        head_dim=key,
        values_per_token=values,
        query_heads=query_heads,
        bytes_per_value=_sparse_latent_bytes(model, precision) or precision.kv.bytes_per_value,
    )
    width = query_heads * (key + value)
    pairs = 2.0 * width, 2.0 * query_heads * fresh
    return Attention(name, layers, window, layout, *pairs, width * precision.activation_bytes)


def _sparse_latent_bytes(model: ModelSpec, precision: Precision) -> float | None:
    """Bytes per value of a latent that sparse attention reads in fp8, with one scale per 128 values and the
    rotary part in bf16.

    656 bytes per token in DeepSeek-V3.2 (vLLM, v1/attention/backends/mla/flashmla_sparse.py, "fp8_ds_mla").
    """
    if not model.indexer or not model.mla or precision.kv.name != "fp8":
        return None
    return (
        model.mla.kv_lora_rank * INDEX_KEY_BYTES + 2.0 * model.mla.qk_rope_head_dim
    ) / model.mla.latent_dim


def _states(model: ModelSpec, n: int, act: float) -> States | None:
    """The recurrent states. Devices share the heads of the state; the convolution's keys are replicated like
    their projections.
    """
    part = model.linear_attention
    if part is None:
        return None
    keys = 2 * part.num_key_heads * part.key_head_dim
    key_heads = math.ceil(part.num_key_heads / n)
    convolved = (part.convolved - keys) / n + 2 * key_heads * part.key_head_dim
    values = part.state_values / n
    value_bytes = 4.0 if part.state_dtype == "fp32" else 2.0
    each = values * value_bytes + convolved * (part.conv_kernel - 1) * act
    return States(
        name=part.kind,
        layers=part.layers,
        bytes_per_sequence=part.layers * each,
        flops_per_token=part.layers * part.flops_per_value * values,
        activation_bytes_per_token=part.layers * (convolved + 2 * part.inner / n) * act,
        bytes_per_input=part.layers * convolved * act,
    )


def _query_values(model: ModelSpec, a: Attention) -> float:
    """Values in the queries of one token, in all layers of a group."""
    head_dim = model.heads(sliding=a.window is not None).head_dim
    return a.layers * a.layout.query_heads * head_dim


def _smalls(
    model: ModelSpec,
    n: int,
    groups: int,
    attentions: tuple[Attention, ...],
    act: float,
    exchanges: bool,
) -> list[Small]:
    layers = model.num_attention_layers
    hidden = model.hidden_size
    plain = [a for a in attentions if a.stride == 1]
    fresh = sum((a.layers - a.shared) * a.layout.values_per_token for a in plain)
    rotated = fresh + sum(_query_values(model, a) for a in plain)
    norms = model.norms_per_layer * model.num_hidden_layers + 1
    inner = model.num_dense_layers * model.intermediate_size / n
    if model.moe:
        routed_width = model.moe.experts_per_token * model.moe.intermediate_size
        expert_width = routed_width + model.moe.shared_intermediate_size
        inner += model.num_moe_layers * expert_width / n
    activation_bytes = model.mlp_matrices * inner * act
    residual_bytes = model.num_blocks * 3 * model.residual_streams * hidden * act
    smalls = [
        Small("embedding", 1, 2 * hidden * act),
        Small("norms", norms, norms * 2 * hidden * act),
        Small("rope", layers, 2 * rotated * act),
        Small("kv append", layers, fresh * act),
        Small("activation", model.num_mlp_layers, activation_bytes, gathered=groups > 1),
        Small("residual", model.num_blocks, residual_bytes),
    ]
    if model.qk_norm:
        smalls.append(Small("qk norm", layers, 2 * rotated * act))
    if model.moe:
        routed = model.num_moe_layers
        score_bytes = routed * model.moe.num_experts * act
        smalls.append(Small("routing", 2 * routed, score_bytes, routed, groups > 1 and not exchanges))
    part = model.linear_attention
    if part:
        convolved_bytes = part.layers * 2 * part.convolved * groups / n * act
        normed_bytes = part.layers * 3 * part.inner * groups / n * act
        smalls.append(Small("convolution", part.layers, convolved_bytes))
        smalls.append(Small("state norm", part.layers, normed_bytes))
    return smalls
