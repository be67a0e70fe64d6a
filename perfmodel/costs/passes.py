"""One forward pass over ``[batch, context, query]``: FLOPs and bytes of every operation on one device."""

from typing import Literal

import numpy as np

from perfmodel.costs.shards import Attention, Experts, Linear, Shard, Small, span
from perfmodel.kv.base import KVMethod
from perfmodel.ops import Cost, Floats, Op
from perfmodel.specs.formats import Format

UNBOUNDED = 2.0**60
"""A context longer than any, where infinity would turn 0 times it into NaN."""


def forward(
    part: Shard,
    batch: Floats,
    query: Floats,
    context: Floats,
    kv: KVMethod,
    *,
    head_query: Floats | None = None,
    independent_query: Floats | None = None,
) -> list[Op]:
    """Count one pass: each of `batch` sequences runs `query` tokens against `context` cached ones, read through `kv`.

    Arguments broadcast; the result lists ops in the order of a layer. head_query: tokens per sequence that reach the
    LM head (default: all; 1 in prefill). independent_query: tokens per sequence that route independently to experts
    (1 ... query; default: all).
    """
    tokens = batch * query
    ops = [_small(part.smalls[0], tokens)]
    ops += [_dense(op, tokens, part.precision.weights) for op in part.linears]
    if part.experts:
        routed = tokens if independent_query is None else batch * independent_query
        ops.append(_routed(part.experts, tokens, routed, part.precision.weights))
    ops += [_attention(part, a, batch, query, context, kv) for a in part.attentions]
    ops += [_small(s, tokens) for s in part.smalls[1:]]
    if part.tensor_parallel > 1:
        message = tokens * (part.model.hidden_size * part.precision.activation_bytes)
        ops.append(Op("all-reduce", "allreduce", 2 * part.model.num_hidden_layers, Cost(), message_bytes=message))
    head_tokens = tokens if head_query is None else batch * head_query
    ops.append(_dense(part.lm_head, head_tokens, part.precision.weights))
    ops.append(cache_upkeep(part, batch, context, kv))
    return ops


def core(ops: list[Op]) -> list[Op]:
    """Linear and attention ops alone, without activation traffic: what the closed forms of docs/model.md count."""
    return [
        Op(
            op.name,
            op.kind,
            op.kernels,
            Cost(op.cost.flops, op.cost.weight_bytes, op.cost.kv_bytes),
            op.compute,
            op.query,
        )
        for op in ops
        if op.kind in ("linear", "attention")
    ]


def selection(
    part: Shard, batch: Floats, context: Floats, kv: KVMethod, when: Literal["step", "iteration", "setup"] = "step"
) -> list[Op]:
    """What choosing the draft's tokens costs beside attending to them.

    when: per draft ``step``, per ``iteration`` or once at ``setup``.
    """
    ops = []
    for a in part.attentions:
        step = getattr(kv, {"step": "select_step", "iteration": "select_iteration", "setup": "setup"}[when])(
            span(context, a.window), part.layout
        )
        cost = Cost(flops=a.layers * batch * step.flops, kv_bytes=a.layers * batch * step.bytes)
        if np.any(step.kernels):
            ops.append(
                Op(
                    f"kv {when} ({a.name})",
                    "attention",
                    a.layers * step.kernels,
                    cost,
                    part.precision.attention_compute,
                )
            )
    return ops


def cache_upkeep(part: Shard, batch: Floats, context: Floats, kv: KVMethod) -> Op:
    """What a stack does about the cache beside attending to it, in host and bookkeeping time that moves few bytes.

    A pass over the whole cache plans its page table once (`kernels` 1), a step that leaves tokens out keeps a small
    cache per sequence and layer (`work_items`). What either costs is the calibration's.
    """
    if kv.budget is None:
        return Op("cache upkeep", "upkeep", 1, Cost())
    sparse, layers = kv.beyond_budget(context), float(part.model.num_hidden_layers)
    return Op("cache upkeep", "upkeep", 1.0 - sparse, Cost(), work_items=batch * layers * sparse)


def _dense(op: Linear, tokens: Floats, weights: Format) -> Op:
    cost = Cost(op.flops_per_token * tokens, op.weight_bytes, 0.0, op.activation_bytes_per_token * tokens)
    packed = _packed(op.weight_bytes, weights)
    return Op(op.name, "linear", op.kernels, cost, weights.compute, packed_weights=packed, columns=op.columns)


def _small(op: Small, tokens: Floats) -> Op:
    return Op(op.name, "small", op.kernels, Cost(activation_bytes=op.activation_bytes_per_token * tokens))


def _routed(e: Experts, tokens: Floats, routed: Floats, weights: Format) -> Op:
    touched = e.touched(routed)
    cost = Cost(e.flops_per_token * tokens, touched * e.expert_weight_bytes, 0.0, e.activation_bytes_per_token * tokens)
    packed, columns = _packed(cost.weight_bytes, weights), touched * e.expert_columns
    return Op("experts", "linear", e.kernels, cost, weights.compute, packed_weights=packed, columns=columns)


def _packed(weight_bytes: Floats, weights: Format) -> Floats:
    """Weight values that must be unpacked (the few biases among the bytes left aside)."""
    return weight_bytes / weights.bytes_per_value if weights.packed else 0.0


def _attention(part: Shard, a: Attention, batch: Floats, query: Floats, context: Floats, kv: KVMethod) -> Op:
    cached = span(context, a.window)
    attended = kv.attended_tokens(cached)
    room = None
    if a.window is not None or kv.budget is not None:
        room = kv.attended_tokens(np.asarray(UNBOUNDED if a.window is None else a.window)) - attended
    pairs = query * attended + _causal_pairs(query, room)
    per_sequence = batch * a.layers
    fresh = part.attention_activation_bytes_per_token + part.layout.token_bytes
    cost = Cost(
        flops=part.attention_flops_per_pair * per_sequence * pairs,
        kv_bytes=per_sequence * kv.read_bytes(part.paged(cached), part.layout),
        activation_bytes=per_sequence * query * fresh,
    )
    items = batch * part.layout.num_kv_heads
    return Op(
        f"attention ({a.name})", "attention", a.layers, cost, part.precision.attention_compute, query, work_items=items
    )


def _causal_pairs(query: Floats, room: Floats | None) -> Floats:
    """Query-key pairs among a sequence's new tokens: each sees itself and those before it, at most `room` of them.

    room: tokens by which the attended span may still grow (None: no end); past it an old token leaves for each new one.
    """
    if room is None:
        return query * (query + 1) / 2
    inside = np.minimum(query, room)
    return inside * (inside + 1) / 2 + (query - inside) * (room + 1)
