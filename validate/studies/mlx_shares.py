"""Fits the shares of the peak that MLX's kernels reach to ``results/published/mlx_kernels.csv``. The file has
times of products and of single forward passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from perfmodel.specs import MLX, GPUSpec, load_gpu, serving_engines
from perfmodel.specs.engines.row_kernels import RowKernels
from perfmodel.specs.models.weights import weight_format
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.mlx_kernels import BLEND, MEASURED_ROWS, Shares

Kernel = Literal["wide", "tile"]
"""Field of `Shares`: ``qmv_wide`` or ``qmm``."""


@dataclass(frozen=True, slots=True)
class ProductRow:
    """A measured product or forward pass of several rows.

    - what: the measured operation.
    - bits, group_size: the format of the weights.
    - ratio: the time over the time of one row.
    """

    id: str
    source_id: str
    url: str
    date: str
    mlx_version: str
    hardware: str
    what: str
    bits: int
    group_size: int
    rows: int
    ratio: float


@cache
def kernel_rows() -> tuple[ProductRow, ...]:
    """All measured products of several rows."""
    return read_published("mlx_kernels", ProductRow)


@cache
def shares_of(architecture: str) -> Shares:
    """The fitted shares of an architecture. If no product was measured on the architecture, they are those of
    the nearest generation.
    """
    kernels = serving_engines()[MLX].row_kernels
    assert kernels
    by_kernel: dict[Kernel, dict[str, list[float]]] = {"wide": {}, "tile": {}}
    for row in kernel_rows():
        gpu = load_gpu(row.hardware)
        kernel = _kernel_of(row, gpu, kernels)
        if kernel is None:
            continue
        arithmetic = row.ratio / kernels.tile if kernel == "tile" else _arithmetic(row.ratio) / row.rows
        if arithmetic:
            share = _arithmetic_at_peak(row, gpu) / arithmetic
            by_kernel[kernel].setdefault(gpu.architecture, []).append(share)
    return Shares(_share(by_kernel["wide"], architecture), _share(by_kernel["tile"], architecture))


def _kernel_of(row: ProductRow, gpu: GPUSpec, kernels: RowKernels) -> Kernel | None:
    """The kernel whose share a product determines; None for a single row, and for products by ``qmv``."""
    if row.rows == 1:
        return None
    is_wide = kernels.is_wide(gpu)
    if row.rows > MEASURED_ROWS or (row.rows >= kernels.first_tiled(gpu) and not is_wide):
        return "tile"
    return "wide" if is_wide else None


def _arithmetic_at_peak(row: ProductRow, gpu: GPUSpec) -> float:
    """The time of one row's arithmetic at the peak, relative to the load of the weights."""
    value_bytes = weight_format(f"{row.bits}bit-g{row.group_size}").base.bytes_per_value
    ridge = gpu.peak_flops("bf16") / gpu.memory_bandwidth_bytes_per_s
    return 2.0 / (value_bytes * ridge)


def _arithmetic(ratio: float) -> float:
    """The time of the arithmetic relative to that of the load; 0 if the load hides the arithmetic.

    - ratio: the measured time of both relative to that of the load.
    """
    return float(max(ratio**BLEND - 1.0, 0.0) ** (1.0 / BLEND))


def _share(shares: Mapping[str, list[float]], architecture: str) -> float:
    """The median of the measured shares of the nearest generation.

    - shares: architecture -> its measured shares.
    """
    generation = _generation(architecture)
    nearest = min(shares, key=lambda known: (abs(_generation(known) - generation), known))
    return float(np.exp(np.median(np.log(shares[nearest]))))


def _generation(architecture: str) -> int:
    """The number of a chip's generation, such as 4 for ``Apple M4``."""
    return int(architecture.removeprefix("Apple M"))
