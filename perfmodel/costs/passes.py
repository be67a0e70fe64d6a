"""Counts the FLOPs and bytes of every operation of one forward pass on one device, over ``[batch, context,
query]``.
"""

from dataclasses import replace

import numpy as np

from perfmodel.costs.cache_reads import attention, indexer, recurrent
from perfmodel.costs.communication import gathered_logits, messages
from perfmodel.costs.experts import Experts
from perfmodel.costs.gemms import Linear
from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.cache import CacheOp
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.gemm import GemmOp, StackedGemmsOp
from perfmodel.costs.kinds.host import HostLaunchesOp
from perfmodel.costs.kinds.small import SmallOp
from perfmodel.costs.kinds.state import StateOp
from perfmodel.costs.kinds.upkeep import PageTableOp, SparseCacheOp
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_shape import PassShape
from perfmodel.costs.shards import Shard, Small
from perfmodel.kv.base import KVMethod
from perfmodel.operations import Cost, Floats


def forward(shard: Shard, shape: PassShape, kv: KVMethod) -> list[Op]:
    """The operations of one pass of a shape. The KV method `kv` determines which part of the cache they read.
    The operations are in the order of a layer.
    """
    if shard.micro_batches > 1:
        return _in_micro_batches(shard, shape, kv)
    ops = model_ops(shard, shape, kv)
    ops.append(cache_upkeep(shard, shape.batch, shape.context, kv))
    if shape.head_query is None:
        ops.append(host_launches(shard, shape.query, shape.varying))
    return ops


def model_ops(shard: Shard, shape: PassShape, kv: KVMethod) -> list[Op]:
    """The operations of `forward` that run the model, without those that prepare a pass in the engine."""
    own = shape.replace(batch=shard.sequences(shape.batch))  # the sequences of this device's attention group
    tokens = shard.rows(own.tokens)
    gathered = tokens if shard.groups == 1 else tokens * shard.groups
    every = shape.head_query is None

    def ran(op: Linear | Small) -> Floats:
        return gathered if op.gathered else tokens

    ops = [_small(shard.smalls[0], ran(shard.smalls[0]))]
    ops += [_dense(op, ran(op), not shard.itemised) for op in shard.projections(np.ndim(tokens), every)]
    if shard.experts:
        routed = shard.rows(own.batch) * shard.groups * own.routed_query
        ops.append(_routed(shard.experts, gathered, routed))
    if shard.model.indexer and kv.reads_all:
        ops.append(indexer(shard, shard.model.indexer, own))
    ops += [attention(shard, a, own, kv) for a in shard.attentions]
    if shard.states:
        ops.append(recurrent(shard, shard.states, own))
    ops += [_small(small, ran(small)) for small in shard.smalls[1:]]
    ops += messages(shard, tokens, gathered)
    head_rows = tokens if shape.head_query is None else shard.rows(own.batch * shape.head_query)
    ops += gathered_logits(shard, head_rows)
    if shape.head_query is not None:
        ops.append(_dense(shard.lm_head, head_rows * shard.groups if shard.lm_head.gathered else head_rows))
    elif shard.itemised:
        ops.append(_dense(shard.lm_head, ran(shard.lm_head)))
    return ops


def _in_micro_batches(shard: Shard, shape: PassShape, kv: KVMethod) -> list[Op]:
    """The operations of a pass that runs as several micro-batches. Each micro-batch has a part of the batch
    and reads all weights.
    """
    count = shard.micro_batches
    each = replace(shard, micro_batches=1, _stacks={})
    part = shape.replace(batch=shape.batch / count)
    return [op.repeated(count) for op in forward(each, part, kv)]


def host_launches(shard: Shard, query: Floats, varying: bool = False) -> Op:
    """The host's launches of attention, one for each layer with attention or a recurrent state.

    The engine determines which passes need these launches (see `HostLaunchesOp.host_s`).
    """
    model = shard.model
    layers = sum(a.layers for a in shard.attentions if a.stride == 1)
    layers += shard.states.layers if shard.states else 0
    return HostLaunchesOp(
        "host launches",
        layers,
        Cost(),
        query=query,
        narrow=shard.precision.narrow_kv,
        head=model.head,
        varying=varying,
    )


def core(ops: list[Op]) -> list[Op]:
    """The linear and attention operations without activation traffic, as in the closed forms of
    docs/model.md.
    """
    plain = list[Op]()
    for op in ops:
        cost = op.cost.replace(activation_bytes=0.0)
        if isinstance(op, GemmOp):
            plain.append(GemmOp(op.name, op.kernels, cost, op.compute))
        elif isinstance(op, AttentionOp | StateOp):
            plain.append(AttentionOp(op.name, op.kernels, cost, op.compute, query=op.query))
        elif isinstance(op, CacheOp):
            plain.append(AttentionOp(op.name, op.kernels, cost, op.compute))
    return plain


def cache_upkeep(shard: Shard, batch: Floats, context: Floats, kv: KVMethod) -> Op:
    """The operation that maintains the cache, in addition to attention. It moves few bytes."""
    if kv.budget is None:
        return PageTableOp("cache upkeep", 1, Cost())
    caches = shard.sequences(batch) * float(shard.model.num_attention_layers)
    return SparseCacheOp("cache upkeep", 0, Cost(), caches=caches)


def _dense(op: Linear, tokens: Floats, stacked: bool = False) -> Op:
    """The operation of a dense projection of `tokens` tokens.

    - stacked: whether `op` represents several projections.
    """
    cost = Cost(op.flops_per_token * tokens, op.weight_bytes, 0.0, op.activation_bytes_per_token * tokens)
    kind = StackedGemmsOp if stacked else GemmOp
    return kind.of_format(op.name, op.kernels, cost, op.form, op.columns, tokens)


def _small(op: Small, tokens: Floats) -> Op:
    """The operation of an element-wise kernel over `tokens` tokens."""
    cost = Cost(activation_bytes=op.activation_bytes_per_token * tokens)
    return SmallOp(op.name, op.kernels, cost, of_experts=op.of_experts)


def _routed(e: Experts, tokens: Floats, routed: Floats) -> Op:
    """The operation of the routed experts.

    - tokens: number of tokens of all groups.
    - routed: number of tokens that are routed independently. The experts that they touch are read.
    """
    touched = e.fullest(routed)
    cost = Cost(
        e.flops_per_token * tokens,
        touched * e.expert_weight_bytes,
        0.0,
        e.activation_bytes_per_token * tokens,
    )
    columns = touched * e.expert_columns
    return ExpertsOp.of_format(
        "experts",
        e.kernels,
        cost,
        e.form,
        columns,
        tokens,
        layers=e.layers,
        held_bytes=e.held_bytes,
        architecture=e.architecture,
        routed_bytes=e.routed_bytes_per_token * tokens,
    )
