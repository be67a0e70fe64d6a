"""Fits constants of kernels that the main record of a fit does not have: attention with many query rows,
attention that does not split its cache, and products in fp8.

The constants of the main fit stay unchanged. A further record adds the constants of its own kernels. They are
fitted with the same formula as predictions use (`Machine.op_predicted_s`).
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.operation import Op
from perfmodel.costs.roofline import Machine
from perfmodel.errors import InputError
from perfmodel.kv.base import KVLayout
from perfmodel.operations import Array, Cost
from perfmodel.reading import read_text
from perfmodel.specs import Calibration, Constant, GPUSpec, Precision, attention_of, weight_format
from perfmodel.validate.harness.micro.roofline_fit import LARGE_WEIGHT, SOFT_RESIDUAL
from perfmodel.validate.harness.micro.timed_kernels import most_rows, pooled
from perfmodel.validate.records import read_record
from perfmodel.validate.solving import Parameter, Values, estimate, significant

UNSPLIT = "triton-unsplit"
"""The attention kernel that does not split its cache."""
TILES = (Parameter("kv_reread_per_tile", 0.5, 0.0, 1.0),)
"""The fitted constant of attention with more query rows than a tile."""
ONE_PIECE = (Parameter("block_bandwidth", 0.9, 0.01, 1.1, log=True),)
"""The fitted constant of attention that does not split its cache."""
FP8 = (
    Parameter("gemm_bandwidth_fraction_fp8", 0.8, 0.01, 1.0, log=True),
    Parameter("gemm_flops_fraction_fp8", 0.6, 0.01, 1.0, log=True),
    Parameter("gemm_fixed_fp8_s", 5e-6, 1e-9, 1e-2, log=True),
)
"""The fitted constants of products in fp8."""


@dataclass(frozen=True)
class Timed:
    """Timed kernels of one kind.

    - op: one operation whose counts are arrays ``[kernel]``.
    - seconds: the time of each kernel.
    - parameters: the constants to fit.
    - weight: the weight of each kernel's error.
    - backend: the attention kernel; None for the decoder's own choice.
    """

    op: Op
    seconds: Array
    parameters: tuple[Parameter, ...]
    weight: Array | float = 1.0
    backend: str | None = None


def with_further(
    calibration: Calibration, gpu: GPUSpec, precision: Precision, paths: Iterable[Path]
) -> Calibration:
    """The calibration with the additional constants that each further file determines. Raises InputError for
    a file without such kernels.

    - precision: the formats of weights and caches.
    - paths: kernel records, or tables that ``benchmarks/attention.py`` wrote.
    """
    for path in paths:
        table = '"implementation"' in read_text(path).partition("\n")[0]
        kernels = _of_table(path, precision) if table else _of_record(path, precision)
        if not kernels:
            raise InputError(f"--further: {path} must have unsplit or wide attention, or products in fp8")
        for timed in kernels:
            calibration = _fitted(calibration, gpu, timed, f"results/{path.parent.name}/{path.name}")
    return calibration


def _of_record(path: Path, precision: Precision) -> list[Timed]:
    """The products in fp8 and the unsplit or wide attention of a kernel record."""
    record = read_record(path)
    rows = pooled(record.kernels)
    timed = []
    if record.data.plan.precision.weights == "fp8":
        products = [row for row in rows if row.kind == "gemm"]
        if products:
            op = _products([row.at for row in products])
            seconds = np.array([row.call_s for row in products])
            weight = np.where(op.rows <= most_rows(record.data.plan), 1.0, math.sqrt(LARGE_WEIGHT))
            timed.append(Timed(op, seconds, FP8, weight))
    attention = [{**row.at, "call_s": row.call_s} for row in rows if row.kind == "attention"]
    timed += _attention(attention, precision, record.data.plan.attention == UNSPLIT)
    return timed


def _of_table(path: Path, precision: Precision) -> list[Timed]:
    """The unsplit calls in a table of ``benchmarks/attention.py``, which has one JSON object per line."""
    try:
        rows = [json.loads(line) for line in read_text(path).splitlines()]
        calls = [{**row, "query": row["queries"]} for row in rows if row["implementation"] == UNSPLIT]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"--further: {path}: must be a table of benchmarks/attention.py ({error})") from None
    return _attention(calls, precision, unsplit=True)


def _attention(calls: Iterable[dict[str, Any]], precision: Precision, unsplit: bool) -> list[Timed]:
    """The calls that an additional constant describes: unsplit calls with several query tokens, or other
    calls with more query rows than a tile.
    """
    backends = attention_of("perfmodel")
    assert backends is not None
    name = UNSPLIT if unsplit else "triton"
    tile_rows = backends.backends[name].tile_rows or math.inf
    described = []
    for call in calls:
        is_wide = call["query"] * _layout(call, precision).group > tile_rows
        if call["query"] > 1 and is_wide != unsplit:
            described.append(call)
    if not described:
        return []
    seconds = np.array([call["call_s"] for call in described])
    parameters = ONE_PIECE if unsplit else TILES
    return [Timed(_attention_op(described, precision), seconds, parameters, backend=name)]


def _layout(call: dict[str, Any], precision: Precision) -> KVLayout:
    """The cache that an attention call reads."""
    values = 2 * call["kv_heads"] * call["head_dim"]
    return KVLayout(call["kv_heads"], call["head_dim"], values, call["heads"], precision.kv.bytes_per_value)


def _attention_op(calls: Sequence[dict[str, Any]], precision: Precision) -> Op:
    """The op of attention calls, as a pass counts one layer. Every count is an array ``[call]``."""
    heads = _column(calls, "heads")
    head_dim = _column(calls, "head_dim")
    batch = _column(calls, "batch")
    context = _column(calls, "context")
    query = _column(calls, "query")
    kv_heads = _column(calls, "kv_heads")
    layouts = [_layout(call, precision) for call in calls]
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


def _products(shapes: Sequence[dict[str, Any]]) -> GemmOp:
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


def _fitted(calibration: Calibration, gpu: GPUSpec, timed: Timed, source: str) -> Calibration:
    """The calibration with the constants that are fitted to some kernels, by least squares on the logarithms
    of their times.
    """

    def stated(values: Values, digits: int | None = None, stderr: Values | None = None) -> Calibration:
        constants = {}
        for name, value in values.items():
            error = None if stderr is None else significant(stderr[name], 4)
            rounded = value if digits is None else significant(value, digits)
            constants[name] = Constant(value=rounded, stderr=error, source=source)
        return calibration.replace(**constants)

    def residuals(values: Values) -> Array:
        machine = Machine(gpu, stated(values), attention_backend=timed.backend)
        return np.asarray(timed.weight * np.log(machine.op_predicted_s(timed.op) / timed.seconds))

    solved = estimate(timed.parameters, residuals, soft=SOFT_RESIDUAL)
    off = residuals(solved.values)
    freedom = max(1, len(off) - len(timed.parameters))
    deviation = math.sqrt(float(np.sum(off**2)) / freedom)
    return stated(solved.values, 4, solved.scaled(deviation).stderr)
