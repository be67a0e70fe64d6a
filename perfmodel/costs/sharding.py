"""Divides a model among the devices of a group, and checks that it can be divided."""

import math

from perfmodel.costs.experts import experts
from perfmodel.costs.gemms import linear, linears
from perfmodel.costs.layout import ONE_BOX, Degrees, RackLayout
from perfmodel.costs.shards import INDEX_KEY_BYTES, Attention, Shard, Small, States
from perfmodel.errors import InputError
from perfmodel.kv.base import KVLayout
from perfmodel.specs import ModelSpec, Precision
from perfmodel.specs.models.formats import KV_FORMATS


def _divisible(model: ModelSpec) -> int:
    """The greatest common divisor of the counts that a tensor-parallel degree must divide."""
    heads = math.gcd(model.num_attention_heads, model.heads(sliding=True).num_attention_heads)
    return math.gcd(heads, model.linear_attention.num_value_heads) if model.linear_attention else heads


def largest_degree(model: ModelSpec, devices: int) -> int:
    """The largest tensor-parallel degree that the model allows and that divides `devices`."""
    return math.gcd(_divisible(model), devices)


def check_tensor_parallel(model: ModelSpec, devices: int, flag: str = "--tp") -> None:
    """Raises InputError if a tensor-parallel degree does not divide the query heads, or the value heads of
    recurrent layers.
    """
    heads = _divisible(model)
    if devices < 1 or heads % devices:
        allowed = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise InputError(
            f"{flag}: must divide the {heads} query heads of {model.name} (one of {allowed}), given {devices}"
        )


def shard(
    model: ModelSpec,
    degrees: Degrees,
    precision: Precision,
    shards_lm_head: bool = True,
    kv_page: int = 1,
    *,
    popularity: float = 0.0,
    graph_sizes: tuple[int, ...] = (),
    layout: RackLayout = ONE_BOX,
    gathers_logits: bool = False,
) -> Shard:
    """The share of a model on one device.

    Query heads, MLP columns and experts are divided among the devices that share them. KV heads are divided
    too. If there are more devices than KV heads, the heads are replicated. An MLA latent and an indexer are
    always replicated.

    - kv_page: tokens per page of the cache.
    - popularity: see `Experts`.
    - graph_sizes: see `Shard`.
    - layout: the layout over several nodes.
    - gathers_logits: whether each device gets all logits. This argument has no effect with data-parallel
      attention groups.

    Raises InputError if the query heads cannot be divided evenly.
    """
    attend = degrees.attend
    check_tensor_parallel(model, attend)
    head_devices = degrees.beside_attention if shards_lm_head else 1
    head = linear("lm_head", 1, (model.hidden_size, model.vocab_size / head_devices), precision)
    head = head.replace(gathered=degrees.gathers)
    gemms = tuple(linears(model, degrees, precision))
    routed = experts(model, degrees, precision, popularity, layout)
    attentions = _attentions(model, attend, precision)
    expert_bytes = routed.held_bytes if routed else 0.0
    matrix_bytes = sum(op.weight_bytes for op in gemms) / model.loops + expert_bytes + head.weight_bytes
    stored_bytes = matrix_bytes + _embedding_bytes(model, degrees, precision)
    stored_bytes += _vector_bytes(model, degrees, precision)
    return Shard(
        model=model,
        tensor_parallel=degrees.tensor_parallel,
        precision=precision,
        linears=gemms,
        lm_head=head,
        experts=routed,
        smalls=tuple(_smalls(model, degrees, attentions, precision.activation_bytes)),
        attentions=attentions,
        states=_states(model, attend, precision.activation_bytes),
        expert_bytes=expert_bytes / layout.stages,
        stored_weight_bytes=stored_bytes / layout.stages,
        kv_page=kv_page,
        graph_sizes=graph_sizes,
        groups=degrees.groups,
        exchanges=degrees.exchanges,
        stages=layout.stages,
        micro_batches=layout.micro_batches,
        gathers_logits=gathers_logits and head_devices > 1 and degrees.groups == 1,
    )


def _embedding_bytes(model: ModelSpec, degrees: Degrees, precision: Precision) -> float:
    """Bytes of a device's part of the input embedding. The result is 0 if the LM head is the same matrix."""
    if model.tie_word_embeddings:
        return 0.0
    value_bytes = precision.weights.of("embedding").bytes_per_value
    return model.embedding_params * value_bytes / degrees.beside_attention


def _vector_bytes(model: ModelSpec, degrees: Degrees, precision: Precision) -> float:
    """Bytes of a device's norms and of its part of additional tables."""
    return (model.norm_params + model.table_params / degrees.tensor_parallel) * precision.activation_bytes


def _attentions(model: ModelSpec, n: int, precision: Precision) -> tuple[Attention, ...]:
    """Groups of attention layers. All layers of a group read the cache in the same way.

    - n: number of devices that share the heads.

    The order is: layers that read the whole cache, layers that read chosen tokens, compressed caches, sliding
    windows.
    """
    full = model.num_attention_layers - model.num_sliding_layers
    dense = model.indexer.dense_layers if model.indexer else full
    groups = []
    if dense:
        groups.append(_span(model, n, precision, "full", dense, None))
    if full - dense:
        chosen = _span(model, n, precision, "chosen" if dense else "full", full - dense, None)
        groups.append(chosen.replace(topk=model.indexer.topk if model.indexer else None))
    unrotated_layers = model.mla.unrotated_layers if model.mla else 0
    if model.mla and unrotated_layers:
        latent = groups[0].layout.replace(
            head_dim=model.mla.kv_lora_rank, values_per_token=model.mla.kv_lora_rank
        )
        rotated = groups[0].replace(layers=groups[0].layers - unrotated_layers)
        unrotated = groups[0].replace(name="unrotated", layers=unrotated_layers, layout=latent)
        groups = [rotated, unrotated, *groups[1:]]
    if groups and model.shared_kv_layers:
        groups[0] = groups[0].replace(shared=model.shared_kv_layers)
    for cache in model.compressed:
        topk = model.indexer.topk if model.indexer and cache.chosen else None
        every = _span(model, n, precision, f"every {cache.stride}", cache.layers, None)
        groups.append(every.replace(topk=topk, stride=cache.stride, activation_bytes_per_token=0.0))
    if model.num_sliding_layers:
        slides = _span(
            model,
            n,
            precision,
            f"window {model.sliding_window}",
            model.num_sliding_layers,
            model.sliding_window,
        )
        groups.append(slides.replace(shared=model.shared_kv_sliding))
    return tuple(groups)


def _span(
    model: ModelSpec, n: int, precision: Precision, name: str, layers: int, window: int | None
) -> Attention:
    """One group of layers. MLA is in absorbed form, with one KV head that all query heads share."""
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
    return Attention(
        name,
        layers,
        window,
        layout,
        flops_per_pair=2.0 * width,
        prompt_flops_per_pair=2.0 * query_heads * fresh,
        activation_bytes_per_token=width * precision.activation_bytes,
    )


def _sparse_latent_bytes(model: ModelSpec, precision: Precision) -> float | None:
    """Bytes per value of a latent that sparse attention reads in fp8, with one scale per 128 values and the
    rotary part in bf16.

    DeepSeek-V3.2 stores 656 bytes per token (vLLM, v1/attention/backends/mla/flashmla_sparse.py,
    "fp8_ds_mla").
    """
    if not model.indexer or not model.mla or precision.kv.name != "fp8":
        return None
    return (
        model.mla.kv_lora_rank * INDEX_KEY_BYTES + 2.0 * model.mla.qk_rope_head_dim
    ) / model.mla.latent_dim


def _states(model: ModelSpec, n: int, act: float) -> States | None:
    """The recurrent states on a device. Devices share the heads of the states. The keys of the convolution
    are replicated, like their projections.
    """
    recurrent = model.linear_attention
    if recurrent is None:
        return None
    layers = recurrent.layers
    keys = 2 * recurrent.num_key_heads * recurrent.key_head_dim
    key_heads = math.ceil(recurrent.num_key_heads / n)
    convolved = (recurrent.convolved - keys) / n + 2 * key_heads * recurrent.key_head_dim
    values = recurrent.state_values / n
    value_bytes = KV_FORMATS[recurrent.state_dtype].bytes_per_value
    layer_bytes = values * value_bytes + convolved * (recurrent.conv_kernel - 1) * act
    return States(
        name=recurrent.kind,
        layers=layers,
        bytes_per_sequence=layers * layer_bytes,
        flops_per_token=layers * recurrent.flops_per_value * values,
        activation_bytes_per_token=layers * (convolved + 2 * recurrent.inner / n) * act,
        bytes_per_input=layers * convolved * act,
    )


def _query_values(model: ModelSpec, a: Attention) -> float:
    """Number of values in the queries of one token, summed over the layers of a group."""
    head_dim = model.heads(sliding=a.window is not None).head_dim
    return a.layers * a.layout.query_heads * head_dim


def _smalls(model: ModelSpec, degrees: Degrees, attentions: tuple[Attention, ...], act: float) -> list[Small]:
    """The element-wise kernels of a pass, in the order of `forward`.

    - act: bytes of an activation value.

    Each kernel reads its input once and writes its output once.
    """
    n = degrees.tensor_parallel
    groups = degrees.groups
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
        smalls.append(Small("routing", 2 * routed, score_bytes, True, degrees.gathers))
    recurrent = model.linear_attention
    if recurrent:
        convolved_bytes = recurrent.layers * 2 * recurrent.convolved * groups / n * act
        normed_bytes = recurrent.layers * 3 * recurrent.inner * groups / n * act
        smalls.append(Small("convolution", recurrent.layers, convolved_bytes))
        smalls.append(Small("state norm", recurrent.layers, normed_bytes))
    return smalls
