"""One forward pass over ``[batch, context, query]``: FLOPs and bytes of every operation on one device."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from perfmodel.costs.gemms import Experts, Linear
from perfmodel.costs.shards import INDEX_KEY_BYTES, Attention, Shard, Small, States
from perfmodel.kv.base import NOTHING, SCORE_BYTES, KVMethod
from perfmodel.operations import Cost, Floats, Op
from perfmodel.specs import Format, Indexer

UNBOUNDED = 2.0**60
"""A context longer than any real one. Infinity would make 0 times it NaN."""


def forward(
    part: Shard,
    batch: Floats,
    query: Floats,
    context: Floats,
    kv: KVMethod,
    *,
    head_query: Floats | None = None,
    independent_query: Floats | None = None,
    kept_states: Floats = 1.0,
    topk_reuse: float = 0.0,
    longer_tokens: Floats = 0.0,
    varying: bool = False,
) -> list[Op]:
    """Counts one pass: each of `batch` sequences runs `query` tokens against `context` cached ones, read
    through `kv`.

    Arguments broadcast; the ops are in the order of a layer. head_query: tokens per sequence that reach the
    LM head (default: all; 1 in prefill). independent_query: tokens per sequence that route independently to
    experts (1 ... query; default: all). kept_states: recurrent states that a sequence writes (1: the last
    one; all for a verification that may roll back to any token). topk_reuse: share of an indexer's choice
    that the next query token of the sequence chooses again and does not read again. longer_tokens: tokens by
    which the longest context exceeds the mean. varying: whether sequences verify different numbers of tokens.
    """
    if part.micro_batches > 1:
        return _in_micro_batches(
            part,
            batch,
            query,
            context,
            kv,
            head_query=head_query,
            independent_query=independent_query,
            kept_states=kept_states,
            topk_reuse=topk_reuse,
            longer_tokens=longer_tokens,
            varying=varying,
        )
    ops = model_ops(
        part,
        batch,
        query,
        context,
        kv,
        head_query=head_query,
        independent_query=independent_query,
        kept_states=kept_states,
        topk_reuse=topk_reuse,
        longer_tokens=longer_tokens,
    )
    ops.append(cache_upkeep(part, batch, context, kv))
    if head_query is None:
        ops.append(host_launches(part, query, varying))
    return ops


def model_ops(
    part: Shard,
    batch: Floats,
    query: Floats,
    context: Floats,
    kv: KVMethod,
    *,
    head_query: Floats | None = None,
    independent_query: Floats | None = None,
    kept_states: Floats = 1.0,
    topk_reuse: float = 0.0,
    longer_tokens: Floats = 0.0,
) -> list[Op]:
    """The ops of `forward` that run the model, without those by which an engine prepares a pass."""
    batch = part.sequences(batch)
    tokens = part.rows(batch * query)
    gathered = tokens if part.groups == 1 else tokens * part.groups

    def ran(op: Linear | Small) -> Floats:
        return gathered if op.gathered else tokens

    ops = [_small(part.smalls[0], ran(part.smalls[0]))]
    every = head_query is None
    ops += [_dense(op, ran(op), not part.itemised) for op in part.projections(np.ndim(tokens), every)]
    if part.experts:
        routed = part.rows(batch) * part.groups * (query if independent_query is None else independent_query)
        ops.append(_routed(part.experts, gathered, routed))
    if part.model.indexer and kv.reads_all:
        ops.append(_choose(part, part.model.indexer, batch, query, context))
    ops += [
        _attention(part, a, batch, query, context, kv, topk_reuse, longer_tokens) for a in part.attentions
    ]
    if part.states:
        ops.append(_recurrent(part, part.states, batch, query, kept_states))
    ops += [_small(s, ran(s)) for s in part.smalls[1:]]
    ops += _messages(part, tokens, gathered)
    if head_query is not None:
        head_rows = part.rows(batch * head_query)
        ops.append(_dense(part.lm_head, head_rows * part.groups if part.lm_head.gathered else head_rows))
    elif part.itemised:
        ops.append(_dense(part.lm_head, ran(part.lm_head)))
    return ops


REPEATED = (
    "kernels",
    "work_items",
    "packed_weights",
    "columns",
    "quantisations",
    "expert_layers",
    "held_bytes",
    "searches",
    "searched",
)
"""Counts of an op that add up over micro-batches. Attention's work items do not: see `_repeated`."""


def _in_micro_batches(part: Shard, batch: Floats, *others: Any, **more: Any) -> list[Op]:
    """The ops of a pass that runs as several, each with a part of the batch and all of the weights."""
    count = part.micro_batches
    each = replace(part, micro_batches=1, _stacks={})
    return [_repeated(op, count) for op in forward(each, batch / count, *others, **more)]


def _repeated(op: Op, count: int) -> Op:
    """An op that runs `count` times in a pass. Sizes of one run stay: rows, messages, attention's items."""
    c = op.cost
    cost = Cost(c.flops * count, c.weight_bytes * count, c.kv_bytes * count, c.activation_bytes * count)
    grown = {name: getattr(op, name) * count for name in REPEATED}
    if op.kind == "attention":
        grown["work_items"] = op.work_items
    return replace(op, cost=cost, longer_bytes=op.longer_bytes * count, **grown)


def host_launches(part: Shard, query: Floats, varying: bool = False) -> Op:
    """The launches of attention by the host, one for each layer that has attention or a recurrent state.

    Which passes have them depends on the engine: see `Machine.host_s`.
    """
    model = part.model
    layers = sum(a.layers for a in part.attentions if a.stride == 1)
    layers += part.states.layers if part.states else 0
    form = part.precision.kv.name
    return Op(
        "host launches", "host", layers, Cost(), query=query, form=form, head=model.head, varying=varying
    )


def _messages(part: Shard, tokens: Floats, gathered: Floats) -> list[Op]:
    """Communication between devices: the all-reduce after each block.

    With data-parallel attention only the devices of a group reduce its attention. Every other block gathers
    the tokens of all groups and scatters its sums, which moves as many bytes as an all-reduce. With expert
    parallelism a token goes only to the groups that are expected to hold one of its experts (all-to-all).
    An all-to-all library dispatches tokens to the ranks of their experts and combines the results. Pipeline
    stages send the tokens on.
    """
    ops = list[Op]()
    model = part.model
    attends = part.tensor_parallel // part.groups
    blocks = model.num_blocks
    token_bytes = model.hidden_size * part.precision.activation_bytes

    def tell(name: str, devices: int, kernels: int, message: Floats, norms: int) -> None:
        ops.append(
            Op(name, "allreduce", kernels, Cost(), message_bytes=message, work_items=norms, devices=devices)
        )

    if part.exchanges:
        blocks = blocks - model.num_moe_layers
        ops += _exchanges(part, tokens)
    elif part.groups > 1:
        blocks = blocks - model.num_mlp_layers
        reach = 1.0
        if part.experts and part.experts.groups > 1:
            reach = -math.expm1(part.experts.experts_per_token * math.log1p(-1.0 / part.experts.groups))
        tell("all-to-all", part.tensor_parallel, model.num_mlp_layers, gathered * token_bytes * reach, 0)
    if part.stages > 1:
        tell("stage send", 2, part.stages - 1, tokens * token_bytes, 0)
    if attends > 1:
        tell("all-reduce", attends, blocks, tokens * token_bytes, 0)
        if model.wide_qk_norm:
            layers = model.num_attention_layers
            tell("qk norm sums", attends, layers, tokens * 8.0, layers)
    return ops


def _exchanges(part: Shard, tokens: Floats) -> list[Op]:
    """Dispatch of a group's tokens to the ranks of their experts, and the combination of the results."""
    routed = part.experts
    assert routed is not None  # `shard` exchanges tokens for routed experts only
    values = float(part.model.hidden_size * min(routed.experts_per_token, routed.groups))
    shared = part.tensor_parallel // part.groups  # devices of a group, each of which sends a share
    return [
        Op(
            name,
            "exchange",
            routed.layers,
            Cost(),
            routed.form.compute,
            message_bytes=values,
            rows=tokens / shared,
            devices=routed.groups,
        )
        for name in ("dispatch", "combine")
    ]


def core(ops: list[Op]) -> list[Op]:
    """Linear and attention ops without activation traffic, as in the closed forms of docs/model.md."""
    kept = ((op, replace(op.cost, activation_bytes=0.0)) for op in ops if op.kind in ("linear", "attention"))
    return [Op(op.name, op.kind, op.kernels, cost, op.compute, op.query) for op, cost in kept]


def selection(
    part: Shard,
    batch: Floats,
    context: Floats,
    kv: KVMethod,
    when: Literal["step", "iteration", "setup"] = "step",
) -> list[Op]:
    """Cost of choosing the draft's tokens, in addition to attention.

    when: per draft ``step``, per ``iteration`` or once at ``setup``.
    """
    ops = []
    batch = part.sequences(batch)
    for a in part.attentions:
        step = getattr(kv, {"step": "select_step", "iteration": "select_iteration", "setup": "setup"}[when])(
            a.span(context), a.layout
        )
        if step is not NOTHING and np.any(step.kernels):
            cost = Cost(flops=a.layers * batch * step.flops, kv_bytes=a.layers * batch * step.bytes)
            ops.append(
                Op(
                    f"kv {when} ({a.name})",
                    "attention",
                    a.layers * step.kernels,
                    cost,
                    part.precision.attention_compute,
                    rows=batch * a.layout.num_kv_heads,
                    searches=a.layers * np.greater(step.searched, 0.0),
                    searched=a.layers * step.searched,
                )
            )
    return ops


def cache_upkeep(part: Shard, batch: Floats, context: Floats, kv: KVMethod) -> Op:
    """Host and bookkeeping time for the cache, in addition to attention. It moves few bytes.

    A pass over the whole cache builds its page table once (`kernels` 1). A step that leaves tokens out
    maintains a small cache per sequence and layer (`work_items`). The calibration has the cost of both.
    """
    if kv.budget is None:
        return Op("cache upkeep", "upkeep", 1, Cost())
    batch = part.sequences(batch)
    return Op("cache upkeep", "upkeep", 0, Cost(), work_items=batch * float(part.model.num_attention_layers))


def _dense(op: Linear, tokens: Floats, stacked: bool = False) -> Op:
    cost = Cost(op.flops_per_token * tokens, op.weight_bytes, 0.0, op.activation_bytes_per_token * tokens)
    return gemm(op.name, op.kernels, cost, op.form, op.columns, rows=tokens, stacked=stacked)


def _small(op: Small, tokens: Floats) -> Op:
    cost = Cost(activation_bytes=op.activation_bytes_per_token * tokens)
    return Op(op.name, "small", op.kernels, cost, expert_layers=op.expert_layers)


def _routed(e: Experts, tokens: Floats, routed: Floats) -> Op:
    touched = e.fullest(routed)
    cost = Cost(
        e.flops_per_token * tokens,
        touched * e.expert_weight_bytes,
        0.0,
        e.activation_bytes_per_token * tokens,
    )
    made = gemm("experts", e.kernels, cost, e.form, touched * e.expert_columns, rows=tokens)
    return replace(made, expert_layers=e.layers, held_bytes=e.held_bytes)


def gemm(
    name: str,
    kernels: Floats,
    cost: Cost,
    form: Format,
    columns: Floats = 0.0,
    *,
    rows: Floats = 1.0,
    stacked: bool = False,
) -> Op:
    """A linear op on weights of one format (the few biases among its bytes count as packed weights)."""
    packed_weights: Floats = 0.0
    if form.packed:
        packed_weights = cost.weight_bytes / form.bytes_per_value
    quantisations: Floats = 0.0
    if form.input_bytes is not None:
        quantisations = kernels
    return Op(
        name,
        "linear",
        kernels,
        cost,
        form.compute,
        packed_weights=packed_weights,
        columns=columns,
        quantisations=quantisations,
        rows=rows,
        form=form.name,
        bytes_per_value=form.bytes_per_value,
        stacked=stacked,
    )


def _attention(
    part: Shard,
    a: Attention,
    batch: Floats,
    query: Floats,
    context: Floats,
    kv: KVMethod,
    reuse: float,
    longer: Floats,
) -> Op:
    """Attention of one group of layers.

    In a model with an indexer, every query token attends to its own `topk` tokens, and the pass reads their
    union once. A draft's own KV method replaces the indexer.
    """
    cached = a.span(context)
    topk = a.topk if kv.reads_all else None
    attended = kv.attended_tokens(cached) if topk is None else np.minimum(cached, topk)
    room = None
    if topk is not None:
        room = topk - attended
    elif a.window is not None or kv.budget is not None:
        longest = UNBOUNDED if a.window is None else a.window
        room = kv.attended_tokens(np.asarray(longest)) - attended
    per_sequence = batch * a.layers
    prompt = topk is None and np.ndim(context) == 0 and context == 0
    pair_flops = a.prompt_flops_per_pair if prompt else a.flops_per_pair
    each = pair_flops * per_sequence
    if topk is None:
        read = kv.read_bytes(part.paged(cached), a.layout)
    else:
        union = attended * (1.0 + (1.0 - reuse) * (query - 1.0))
        read = np.minimum(union, cached) * a.layout.token_bytes
    token_bytes = a.activation_bytes_per_token + a.layout.token_bytes / a.stride
    cost = Cost(
        flops=query * (each * attended) + each * _causal_pairs(query, room),
        kv_bytes=per_sequence * read,
        activation_bytes=per_sequence * query * token_bytes,
    )
    kv_heads = a.layout.num_kv_heads
    reread = query if topk is None else 1.0
    longer_bytes: Floats = 0.0
    if topk is None and a.window is None and kv.budget is None:
        longer_bytes = longer * a.layers * a.layout.token_bytes / kv_heads
    return Op(
        f"attention ({a.name})",
        "attention",
        a.layers if a.stride == 1 else 0,
        cost,
        part.precision.attention_compute,
        reread,
        work_items=batch * kv_heads,
        rows=part.rows(batch) * kv_heads,
        longer_bytes=longer_bytes,
        group=a.layout.group,
        cache="latent" if part.model.mla else "heads",
        form=part.precision.kv.name,
        head=part.model.head,
    )


def _choose(part: Shard, index: Indexer, batch: Floats, query: Floats, context: Floats) -> Op:
    """The indexer: scores of every cached token for every query token, and the choice of the largest.

    Its keys are cached. Every device runs all of its heads.
    """
    tokens = batch * query * index.layers
    context = context / index.stride
    width = index.num_heads * index.head_dim
    key_bytes = index.head_dim * INDEX_KEY_BYTES
    query_bytes = width * INDEX_KEY_BYTES + index.num_heads * 4.0
    scores = query * context + _causal_pairs(query, None)
    token_bytes = query_bytes + key_bytes + 2.0 * SCORE_BYTES * context
    cost = Cost(
        flops=2.0 * width * index.layers * batch * scores,
        kv_bytes=batch * index.layers * part.paged(context) * key_bytes,
        activation_bytes=tokens * token_bytes,
    )
    op = Op("indexer", "attention", 2 * index.layers, cost, part.precision.index_compute, rows=batch * query)
    # those of DeepSeek-V4 and MiniMax-M3 are fused
    if part.model.mla and index.stride == 1:
        return replace(op, cache="index")
    return op


def _recurrent(part: Shard, states: States, batch: Floats, query: Floats, kept: Floats) -> Op:
    """Recurrent layers. The state is read once per sequence and written `kept_states` times."""
    tokens = batch * query
    cost = Cost(
        flops=states.flops_per_token * tokens,
        kv_bytes=batch * states.bytes_per_sequence * (1.0 + kept),
        activation_bytes=states.activation_bytes_per_token * tokens,
    )
    return Op(
        f"state ({states.name})",
        "attention",
        states.layers,
        cost,
        part.precision.attention_compute,
        query=query,
        cache="mamba2" if states.name == "mamba2" else "state",
    )


def _causal_pairs(query: Floats, room: Floats | None) -> Floats:
    """Query-key pairs among a sequence's new tokens: each attends to itself and at most `room` earlier ones.

    room: tokens by which the attended span may still grow (None: unlimited); beyond it an old token leaves
    for each new one.
    """
    if room is None:
        return query * (query + 1) / 2
    inside = np.minimum(query, room)
    return inside * (inside + 1) / 2 + (query - inside) * (room + 1)
