"""Computes the time of a product of weights and several rows with MLX, relative to the time of one row. A row
is the activations of one token.

The kernel depends on the release of MLX, the generation of the chip, the format and the number of rows
(`RowKernels`). For m rows, with c as the time of one row's arithmetic relative to the load of the weights:

- ``qmv`` takes 1 + r (m - 1), where r is measured.
- ``qmv_wide`` loads the weights once and takes (1 + (c m)^3)^(1/3).
- ``qmm`` and the kernels for 16-bit weights compute whole tiles of t rows in max(1, c t ceil(m / t)).

The arithmetic reaches a share of the peak, which is fitted to ``results/published/mlx_kernels.csv``. This
file has times of products and of single forward passes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.specs import GPUSpec, load_gpu, serving_engines
from perfmodel.specs.engines.row_kernels import OwnKernel, RowKernels
from perfmodel.specs.models.weights import weight_format
from perfmodel.specs.published import read_published

BLEND = 3.0
"""Power of the formula that combines loading and arithmetic, as for other GEMMs (`gemm_blend_power`)."""
MEASURED_ROWS = 8
"""Largest number of rows with which ``qmv`` and ``qmv_wide`` were measured. The measured products of ten rows
and more used ``qmm``.
"""


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


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of an architecture's peak that the arithmetic of ``qmv_wide`` (wide) and ``qmm`` (tile)
    reaches.
    """

    wide: float
    tile: float


@dataclass(frozen=True)
class RowTimes:
    """The relative times of products on one device.

    - wide: whether the release has ``qmv_wide``.
    - dense: whether the device has a kernel for 16-bit products of few rows.
    """

    gpu: GPUSpec
    kernels: RowKernels
    shares: Shares
    fork_kernel: OwnKernel | None = None
    wide: bool = True
    dense: bool = True

    def of(self, rows: int, value_bytes: float) -> float:
        """The time of a product of several rows over the time of one row.

        - value_bytes: bytes per weight.
        """
        if rows == 1:
            return 1.0
        k = self.kernels
        if value_bytes >= 2.0:
            flat = self.dense and not k.is_linear(self.gpu)
            return self._tiled(rows, value_bytes, k.tile if flat else k.dense_tile)
        if self.fork_kernel is not None and self.fork_kernel.takes(self.gpu, rows):
            return self._of_fork(self.fork_kernel, rows, value_bytes)
        if rows >= k.first_tiled(self.gpu):
            tiled = self._tiled(rows, value_bytes, k.tile)
            return max(tiled, self._row_by_row(MEASURED_ROWS)) if k.is_linear(self.gpu) else tiled
        if not self.wide or not k.is_wide(self.gpu):
            return self._row_by_row(rows)
        return self._blended(rows * self._row(value_bytes, self.shares.wide))

    def _of_fork(self, kernel: OwnKernel, rows: int, value_bytes: float) -> float:
        """The relative time of a fork's own kernel, which computes whole tiles of rows."""
        share = kernel.share * self.shares.tile
        return self._blended(_in_tiles(rows, kernel.tile) * self._row(value_bytes, share))

    def _row_by_row(self, rows: int) -> float:
        """The relative time of ``qmv``, which was measured on an Ultra with up to `MEASURED_ROWS` rows."""
        return 1.0 + self.kernels.row * (min(rows, MEASURED_ROWS) - 1)

    def _row(self, value_bytes: float, share: float) -> float:
        """The time of one row's arithmetic relative to the load of the weights."""
        ridge = self.gpu.peak_flops("bf16") / self.gpu.memory_bandwidth_bytes_per_s
        return 2.0 / (value_bytes * ridge * share)

    def _tiled(self, rows: int, value_bytes: float, tile: int) -> float:
        return max(1.0, _in_tiles(rows, tile) * self._row(value_bytes, self.shares.tile))

    @staticmethod
    def _blended(arithmetic: float) -> float:
        return float((1.0 + arithmetic**BLEND) ** (1.0 / BLEND))


def _in_tiles(rows: int, tile: int) -> int:
    """The number of rows that a kernel computes, which is a multiple of the rows of a tile."""
    return tile * math.ceil(rows / tile)


@cache
def kernel_rows() -> tuple[ProductRow, ...]:
    """All measured products of several rows."""
    return read_published("mlx_kernels", ProductRow)


@cache
def shares_of(architecture: str) -> Shares:
    """The fitted shares of an architecture. If no product was measured on the architecture, they are those of
    the nearest generation.
    """
    kernels = serving_engines()["mlx"].row_kernels
    assert kernels
    wide: dict[str, list[float]] = {}
    tile: dict[str, list[float]] = {}
    for row in kernel_rows():
        gpu = load_gpu(row.hardware)
        is_wide = kernels.is_wide(gpu)
        is_tiled = row.rows > MEASURED_ROWS or (row.rows >= kernels.first_tiled(gpu) and not is_wide)
        if row.rows == 1 or not (is_tiled or is_wide):
            continue
        value_bytes = weight_format(f"{row.bits}bit-g{row.group_size}").base.bytes_per_value
        ridge = gpu.peak_flops("bf16") / gpu.memory_bandwidth_bytes_per_s
        at_peak = 2.0 / (value_bytes * ridge)
        if is_tiled:
            arithmetic = row.ratio / kernels.tile
            tile.setdefault(gpu.architecture, []).append(at_peak / arithmetic)
        elif arithmetic := _arithmetic(row.ratio) / row.rows:
            wide.setdefault(gpu.architecture, []).append(at_peak / arithmetic)
    return Shares(_share(wide, architecture), _share(tile, architecture))


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
