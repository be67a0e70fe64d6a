"""The kernels that multiply quantised weights by the rows of a verification. The number of rows determines
the kernel. These facts are read from ``row_kernels`` in ``hardware/engines/<word>.yaml``.

MLX has three such kernels. ``qmv`` reads the weights once for each row. ``qmv_wide`` reads the weights once
for several rows. The time of ``qmv_wide`` is its loading time, or the time of its arithmetic if that is
longer. ``qmm`` computes a whole tile of rows.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.devices.gpu import GPUSpec

Rows = Annotated[int, Meta(ge=1, le=512)]
Factor = Annotated[float, Meta(gt=0, le=64)]


class OwnKernel(Frozen):
    """A kernel of an engine's fork. It replaces kernels of the engine `over` for `first` to `last` rows, in
    tiles of `tile` rows, on the listed architectures.

    - share: FLOP/s of the kernel, divided by the FLOP/s of ``qmm``.
    """

    over: str
    first: Rows
    last: Rows
    tile: Rows
    share: Factor
    architectures: tuple[str, ...]
    source: Text

    def takes(self, gpu: GPUSpec, rows: float) -> bool:
        """Whether the kernel runs for this number of rows on a device."""
        return gpu.architecture in self.architectures and self.first <= rows <= self.last


class RowKernels(Frozen):
    """The kernels of one engine for few rows.

    - wide: architectures on which ``qmv_wide`` exists for weights in groups of integers.
    - linear: words in the titles of the devices on which ``qmv_wide`` saves no time.
    - tile_from: smallest number of rows for which ``qmm`` runs. A key is an architecture, or a word in the
      title of a device.
    - tile: number of rows of a tile of ``qmm``.
    - row: measured time of each further row of ``qmv``, divided by the time of the first row.
    - dense_tile: number of rows of a tile of 16-bit weights, if they have no kernel for few rows. They have
      none in old releases and on `linear` devices.
    - alone: largest number of rows for which each token reads its own experts.
    """

    wide: tuple[str, ...] = ()
    linear: tuple[str, ...] = ()
    tile_from: dict[str, Rows]
    tile: Rows
    row: Factor
    dense_tile: Rows
    alone: Rows
    source: Text

    def is_wide(self, gpu: GPUSpec) -> bool:
        """Whether ``qmv_wide`` exists for affine weights on a device and saves time there."""
        return gpu.architecture in self.wide and not self.is_linear(gpu)

    def is_linear(self, gpu: GPUSpec) -> bool:
        """Whether kernels for few rows save no time on a device."""
        return any(word in gpu.title.split() for word in self.linear)

    def first_tiled(self, gpu: GPUSpec) -> int:
        """The smallest number of rows for which ``qmm`` runs on a device."""
        words = (*gpu.title.split(), gpu.architecture)
        return next(self.tile_from[word] for word in words if word in self.tile_from)
