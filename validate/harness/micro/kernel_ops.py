"""The operations of timed kernels, as predictions count them. One operation has arrays of counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.kv.base import KVLayout
from perfmodel.operations import Array, Cost
from perfmodel.specs import Precision, weight_format


def layout_of(call: dict[str, Any], precision: Precision) -> KVLayout:
    """The cache that an attention call reads."""
    values = 2 * call["kv_heads"] * call["head_dim"]
    return KVLayout(call["kv_heads"], call["head_dim"], values, call["heads"], precision.kv.bytes_per_value)


def attention_op(calls: Sequence[dict[str, Any]], precision: Precision) -> AttentionOp:
    """The op of attention calls, as a pass counts one layer. Every count is an array ``[call]``."""
    heads = _column(calls, "heads")
    head_dim = _column(calls, "head_dim")
    batch = _column(calls, "batch")
    context = _column(calls, "context")
    query = _column(calls, "query")
    kv_heads = _column(calls, "kv_heads")
    layouts = [layout_of(call, precision) for call in calls]
    token_bytes = np.array([layout.token_bytes for layout in layouts])
    query_bytes = 2 * heads * head_dim * precision.activation_bytes
    pairs = query * context + query * (query + 1) / 2
    cost = Cost(
        flops=4 * heads * head_dim * batch * pairs,
        kv_bytes=batch * context * token_bytes,
        activation_bytes=batch * query * (query_bytes + token_bytes),
    )
    return AttentionOp(
        "attention",
        1,
        cost,
        precision.attention_compute,
        query,
        work_items=batch * kv_heads,
        padded_items=batch * kv_heads,
        narrow=precision.narrow_kv,
        group_rows=np.array([layout.group for layout in layouts]),
    )


def fp8_products(shapes: Sequence[dict[str, Any]]) -> GemmOp:
    """The op of products in fp8. Every count is an array ``[product]``."""
    n = _column(shapes, "n")
    k = _column(shapes, "k")
    m = _column(shapes, "m")
    form = weight_format("fp8").base
    activation_bytes = m * (n + k) * 2.0
    cost = Cost(2 * m * n * k, n * k * form.bytes_per_value, 0.0, activation_bytes)
    return GemmOp.of_format("product", 1, cost, form, n, rows=m)


def _column(calls: Sequence[dict[str, Any]], name: str) -> Array:
    """One size of all calls, ``[call]``."""
    return np.array([call[name] for call in calls], float)
