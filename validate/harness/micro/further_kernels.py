"""The timed kernels in further files, and the constants that each kind of them determines."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.costs.operation import Op
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.reading import read_text
from perfmodel.specs import Precision, attention_of
from perfmodel.validate.harness.micro.kernel_ops import attention_op, fp8_products, layout_of
from perfmodel.validate.harness.micro.roofline_fit import LARGE_WEIGHT
from perfmodel.validate.harness.micro.timed_kernels import most_rows, pooled
from perfmodel.validate.records import read_record
from perfmodel.validate.solving import Parameter

UNSPLIT = "triton-unsplit"
"""The attention kernel that does not split its cache."""
TILES = (Parameter("kv_reread_per_tile", 0.5, 0.0, 1.0),)
"""The fitted constant of attention with more query rows than a tile. Its range is that of a share. Here and
below, the fitted values do not depend on the start of the search.
"""
ONE_PIECE = (Parameter("block_bandwidth", 0.9, 0.01, 1.1, log=True),)
"""The fitted constant of attention that does not split its cache. The upper bound allows a rate a little
above the stated bandwidth.
"""
FP8 = (
    Parameter("gemm_bandwidth_fraction_fp8", 0.8, 0.01, 1.0, log=True),
    Parameter("gemm_flops_fraction_fp8", 0.6, 0.01, 1.0, log=True),
    Parameter("gemm_fixed_fp8_s", 5e-6, 1e-9, 1e-2, log=True),
)
"""The fitted constants of products in fp8. Their bounds are those of the same constants in
`roofline_fit.GEMM`.
"""


@dataclass(frozen=True)
class Timed:
    """Timed kernels of one kind.

    - op: one operation whose counts are arrays ``[kernel]``.
    - seconds: the time of each kernel.
    - parameters: the constants to fit.
    - weight: factor of each kernel's log error. The fit minimises squares, so it is the square root of the
      weight of a squared error.
    - backend: the attention kernel; None for the decoder's own choice.
    """

    op: Op
    seconds: Array
    parameters: tuple[Parameter, ...]
    weight: Array | float = 1.0
    backend: str | None = None


def kernels_of(path: Path, precision: Precision) -> list[Timed]:
    """The kernels of a file that determine additional constants. Raises InputError for an unreadable file.

    - path: a kernel record, or a table that ``benchmarks/attention.py`` wrote. Each line of a table names an
      implementation; the first line of a record is its header, which names none.
    """
    header, _, _ = read_text(path).partition("\n")
    return _of_table(path, precision) if '"implementation"' in header else _of_record(path, precision)


def _of_record(path: Path, precision: Precision) -> list[Timed]:
    """The products in fp8 and the unsplit or wide attention of a kernel record."""
    record = read_record(path)
    rows = pooled(record.kernels)
    timed = []
    if record.data.plan.precision.weights == "fp8":
        products = [row for row in rows if row.kind == "gemm"]
        if products:
            op = fp8_products([row.at for row in products])
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
    """The calls of attention that determine an additional constant; see `_is_described`."""
    backends = attention_of("perfmodel")
    assert backends is not None
    name = UNSPLIT if unsplit else "triton"
    tile_rows = backends.backends[name].tile_rows or math.inf
    described = [call for call in calls if _is_described(call, precision, tile_rows, unsplit)]
    if not described:
        return []
    seconds = np.array([call["call_s"] for call in described])
    parameters = ONE_PIECE if unsplit else TILES
    return [Timed(attention_op(described, precision), seconds, parameters, backend=name)]


def _is_described(call: dict[str, Any], precision: Precision, tile_rows: float, unsplit: bool) -> bool:
    """Whether one additional constant describes a call with several query tokens.

    - An unsplit call must fit into one tile: a wider call would mix `block_bandwidth` with the re-reads.
    - Any other call must need more than one tile, because only further tiles read the cache again.
    """
    if call["query"] == 1:
        return False
    is_wide = call["query"] * layout_of(call, precision).group > tile_rows
    return not is_wide if unsplit else is_wide
