"""Computes the time of a product of weights and several rows with MLX, relative to the time of one row. A row
is the activations of one token.

The kernel depends on the release of MLX, the generation of the chip, the format and the number of rows
(`RowKernels`). For m rows, with c as the time of one row's arithmetic relative to the load of the weights:

- ``qmv`` takes 1 + r (m - 1), where r is measured.
- ``qmv_wide`` loads the weights once and takes (1 + (c m)^3)^(1/3).
- ``qmm`` and the kernels for 16-bit weights compute whole tiles of t rows in max(1, c t ceil(m / t)).

The arithmetic reaches a share of the peak, which `mlx_shares` fits.
"""

import math
from dataclasses import dataclass

from perfmodel.specs import GPUSpec
from perfmodel.specs.engines.row_kernels import OwnKernel, RowKernels

BLEND = 3.0
"""Power of the formula that combines loading and arithmetic, as for other GEMMs (`gemm_blend_power`)."""
MEASURED_ROWS = 8
"""Largest number of rows with which ``qmv`` and ``qmv_wide`` were measured. The measured products of ten rows
and more used ``qmm``.
"""


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
