"""Counts the messages that devices send each other in a pass."""

import math

from perfmodel.costs.experts import Experts
from perfmodel.costs.kinds.messages import AllReduceOp, ExchangeOp, LogitsGatherOp, StageSendOp
from perfmodel.costs.operation import Op
from perfmodel.costs.shards import Shard
from perfmodel.operations import Cost, Floats
from perfmodel.specs.devices.links import DIRECTIONS

NORM_SUMS_BYTES = 8.0
"""Bytes of the two sums of squares of a token, one over its queries and one over its keys, in fp32."""


def messages(shard: Shard, tokens: Floats, gathered: Floats) -> list[Op]:
    """The messages of a pass: the all-reduce after each block, and the messages of data, expert and pipeline
    parallelism.

    With data-parallel attention, the all-reduce of attention runs only inside each group. Every other block
    gathers the tokens of all groups and scatters its sums, which moves as many bytes as an all-reduce. With
    expert parallelism, a token is sent only to the groups that are expected to hold one of its experts
    (all-to-all). An all-to-all library dispatches tokens to the ranks of their experts and combines the
    results. Each pipeline stage sends the tokens to the next stage.
    """
    ops = list[Op]()
    model = shard.model
    attends = shard.tensor_parallel // shard.groups  # devices that share a sequence's attention
    blocks = model.num_blocks
    token_bytes = model.hidden_size * shard.precision.activation_bytes

    if shard.exchanges:
        blocks = blocks - model.num_moe_layers
        ops += _exchanges(shard, tokens)
    elif shard.groups > 1:
        blocks = blocks - model.num_mlp_layers
        sent = gathered * token_bytes * _reached_share(shard.experts)
        ops.append(_all_reduce("all-to-all", model.num_mlp_layers, shard.tensor_parallel, sent))
    if shard.stages > 1:
        sends = shard.stages - 1
        ops.append(StageSendOp("stage send", sends, Cost(), devices=2, message_bytes=tokens * token_bytes))
    if attends > 1:
        ops.append(_all_reduce("all-reduce", blocks, attends, tokens * token_bytes))
        if model.wide_qk_norm:
            layers = model.num_attention_layers
            sums = _all_reduce("qk norm sums", layers, attends, tokens * NORM_SUMS_BYTES)
            ops.append(sums.replace(norms=layers))
    return ops


def gathered_logits(shard: Shard, rows: Floats) -> list[Op]:
    """The all-gather of the logits of `rows` tokens. The list is empty if the engine does not gather
    logits.
    """
    if not shard.gathers_logits:
        return []
    logits_bytes = rows * (shard.model.vocab_size * shard.precision.activation_bytes)
    gather = LogitsGatherOp("logits", 1, Cost(), devices=shard.tensor_parallel, message_bytes=logits_bytes)
    return [gather]


def _reached_share(experts: Experts | None) -> float:
    """Expected share of the expert-parallel groups that hold at least one of a token's experts. The result is
    1 without such groups.
    """
    if experts is None or experts.groups == 1:
        return 1.0
    return -math.expm1(experts.experts_per_token * math.log1p(-1.0 / experts.groups))


def _exchanges(shard: Shard, tokens: Floats) -> list[Op]:
    """Dispatch of a group's tokens to the ranks of their experts, and the combination of the results."""
    routed = shard.experts
    assert routed is not None  # only models with routed experts exchange tokens
    values = float(shard.model.hidden_size * min(routed.experts_per_token, routed.groups))
    shared = shard.tensor_parallel // shard.groups  # devices of a group, each of which sends a share
    return [
        ExchangeOp(
            direction,
            routed.layers,
            Cost(),
            routed.form.compute,
            devices=routed.groups,
            direction=direction,
            values=values,
            tokens=tokens / shared,
        )
        for direction in DIRECTIONS
    ]


def _all_reduce(name: str, kernels: int, devices: int, message_bytes: Floats) -> AllReduceOp:
    return AllReduceOp(name, kernels, Cost(), devices=devices, message_bytes=message_bytes)
