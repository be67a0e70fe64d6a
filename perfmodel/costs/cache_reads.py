"""Counts the work of the operations that read a cache: attention, recurrent states, indexers and token
selection.
"""

from typing import Literal

import numpy as np

from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.selection import IndexerOp, SelectionOp
from perfmodel.costs.kinds.state import StateOp
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_shape import PassShape
from perfmodel.costs.shards import INDEX_KEY_BYTES, Attention, Shard, States
from perfmodel.kv.base import NOTHING, SCORE_BYTES, KVMethod
from perfmodel.operations import Cost, Floats
from perfmodel.specs import Indexer

INDEX_WEIGHT_BYTES = 4.0
"""Bytes of the weight of an indexer's head for one query token, in float32."""
UNBOUNDED = 2.0**60
"""A context longer than any real one. Infinity is not used, because 0 times infinity is NaN."""


def selection(
    shard: Shard,
    batch: Floats,
    context: Floats,
    kv: KVMethod,
    when: Literal["step", "iteration", "setup"] = "step",
) -> list[Op]:
    """The operations that select the cached tokens that a draft reads.

    - when: selects the operations of each draft ``step``, of each ``iteration``, or of the ``setup`` before
      decoding.
    """
    ops = list[Op]()
    batch = shard.sequences(batch)
    choose = {"step": kv.select_step, "iteration": kv.select_iteration, "setup": kv.setup}[when]
    for a in shard.attentions:
        choice = choose(a.span(context), a.layout)
        if choice is NOTHING or not np.any(choice.kernels):
            continue
        sequences = a.layers * batch
        cost = Cost(flops=sequences * choice.flops, kv_bytes=sequences * choice.bytes)
        ops.append(
            SelectionOp(
                f"kv {when} ({a.name})",
                a.layers * choice.kernels,
                cost,
                shard.precision.attention_compute,
                searches=a.layers * np.greater(choice.searched, 0.0),
                searched=a.layers * choice.searched,
                work_items=batch * a.layout.num_kv_heads,
            )
        )
    return ops


def attention(shard: Shard, a: Attention, shape: PassShape, kv: KVMethod) -> Op:
    """The attention operation of one group of layers.

    In a model with an indexer, every query token attends to its own `topk` tokens. The pass reads the union
    of these tokens once. A sparse KV method of a draft replaces the indexer.
    """
    query = shape.query
    topk = a.topk if kv.reads_all else None
    kv_heads = a.layout.num_kv_heads
    reads_whole_context = topk is None and a.window is None and kv.budget is None
    longer_bytes: Floats = 0.0
    if reads_whole_context:
        longer_tokens = shape.longer_tokens * a.layers  # summed over layers
        longer_bytes = longer_tokens * a.layout.token_bytes / kv_heads
    return AttentionOp(
        f"attention ({a.name})",
        kernels=a.layers if a.stride == 1 else 0,  # the kernel of the window reads such entries too
        cost=_attention_cost(shard, a, shape, kv, topk),
        compute=shard.precision.attention_compute,
        query=query if topk is None else 1.0,
        work_items=shape.batch * kv_heads,
        padded_items=shard.rows(shape.batch) * kv_heads,
        longer_bytes=longer_bytes,
        group_rows=a.layout.group,
        latent=shard.model.mla is not None,
        narrow=shard.precision.narrow_kv,
        head=shard.model.head,
    )


def _attention_cost(shard: Shard, a: Attention, shape: PassShape, kv: KVMethod, topk: int | None) -> Cost:
    """FLOPs and bytes of one group of layers. Each query token attends to the cached tokens of its span, and
    to the new tokens before it.

    - topk: number of tokens that an indexer chooses. It is None without an indexer.
    """
    query = shape.query
    context = shape.context
    cached = a.span(context)
    per_sequence = shape.batch * a.layers
    over_empty_cache = np.ndim(context) == 0 and context == 0
    reads_prompt = over_empty_cache and topk is None
    pair_flops = a.prompt_flops_per_pair if reads_prompt else a.flops_per_pair
    flops_per_pair = pair_flops * per_sequence
    if topk is None:
        attended = kv.attended_tokens(cached)
        read_bytes = kv.read_bytes(shard.paged(cached), a.layout)
    else:
        attended = np.minimum(cached, topk)
        read_bytes = _union(attended, cached, query, shape.topk_reuse) * a.layout.token_bytes
    new_pairs = _causal_pairs(query, _room(a, attended, kv, topk))
    token_bytes = a.activation_bytes_per_token + a.layout.token_bytes / a.stride
    return Cost(
        flops=query * (flops_per_pair * attended) + flops_per_pair * new_pairs,
        kv_bytes=per_sequence * read_bytes,
        activation_bytes=per_sequence * query * token_bytes,
    )


def _room(a: Attention, attended: Floats, kv: KVMethod, topk: int | None) -> Floats | None:
    """Number of tokens by which the attended span may still grow within a pass. The result is None without a
    limit.

    The limit is the number of tokens that an indexer chooses (topk), or that the KV method attends to in
    the longest span.
    """
    if topk is not None:
        return topk - attended
    if a.window is None and kv.budget is None:
        return None
    longest = UNBOUNDED if a.window is None else a.window
    return kv.attended_tokens(np.asarray(longest)) - attended


def _union(chosen: Floats, cached: Floats, query: Floats, reuse: float) -> Floats:
    """Cached tokens that a pass reads, if each query token attends to its own `chosen` tokens.

    - reuse: share of these tokens that the next query token chooses again.
    """
    union = chosen * (1.0 + (1.0 - reuse) * (query - 1.0))
    return np.minimum(union, cached)


def indexer(shard: Shard, index: Indexer, shape: PassShape) -> Op:
    """The operation of the indexer. It scores every cached token for every query token, and chooses the
    tokens with the largest scores.

    The keys of the indexer are cached. Every device runs all heads of the indexer.
    """
    query = shape.query
    tokens = shape.tokens * index.layers
    context = shape.context / index.stride
    width = index.num_heads * index.head_dim
    key_bytes = index.head_dim * INDEX_KEY_BYTES
    query_bytes = width * INDEX_KEY_BYTES + index.num_heads * INDEX_WEIGHT_BYTES
    scores = query * context + _causal_pairs(query, None)
    score_bytes = 2.0 * SCORE_BYTES * context  # written by the scoring kernel, read by the selection
    token_bytes = query_bytes + key_bytes + score_bytes
    cost = Cost(
        flops=2.0 * width * index.layers * shape.batch * scores,
        kv_bytes=shape.batch * index.layers * shard.paged(context) * key_bytes,
        activation_bytes=tokens * token_bytes,
    )
    kernels = 2 * index.layers  # scoring and selection
    compute = shard.precision.index_compute
    if shard.model.mla and index.stride == 1:
        return IndexerOp("indexer", kernels, cost, compute, tokens=shape.tokens)
    # the kernels of the other indexers (DeepSeek-V4, MiniMax-M3) are fused
    return SelectionOp("indexer", kernels, cost, compute)


def recurrent(shard: Shard, states: States, shape: PassShape) -> Op:
    """The operation of the recurrent layers. The state of each sequence is read once and written
    `kept_states` times.
    """
    tokens = shape.tokens
    cost = Cost(
        flops=states.flops_per_token * tokens,
        kv_bytes=shape.batch * states.bytes_per_sequence * (1.0 + shape.kept_states),
        activation_bytes=states.activation_bytes_per_token * tokens,
    )
    return StateOp(
        f"state ({states.name})",
        states.layers,
        cost,
        shard.precision.attention_compute,
        query=shape.query,
        scans=states.name == "mamba2",
    )


def _causal_pairs(query: Floats, room: Floats | None) -> Floats:
    """Number of query-key pairs among the new tokens of a sequence. Each new token attends to itself and to
    at most `room` earlier new tokens.

    - room: number of tokens by which the attended span may still grow. None means no limit. Beyond this
      number, an old token leaves the span for each new one.
    """
    if room is None:
        return query * (query + 1) / 2
    inside = np.minimum(query, room)
    return inside * (inside + 1) / 2 + (query - inside) * (room + 1)
