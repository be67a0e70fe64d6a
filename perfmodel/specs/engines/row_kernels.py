"""Which kernel multiplies quantised weights by the rows of a verification, depending on their number:
``row_kernels`` in ``hardware/engines/<word>.yaml``.

MLX has three. ``qmv`` reads the weights once for each row. ``qmv_wide`` reads them once for a few rows, so
its time is that of the load until the rows' arithmetic takes longer. ``qmm`` computes a whole tile of rows.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.devices.gpu import GPUSpec

Rows = Annotated[int, Meta(ge=1, le=512)]
Factor = Annotated[float, Meta(gt=0, le=64)]


class OwnKernel(Frozen):
    """A kernel of a fork that replaces kernels of another engine (`over`) for `first` to `last` rows, on
    these architectures, in tiles of `tile` rows.

    - share: its arithmetic per second divided by that of ``qmm``.
    """

    over: str
    first: Rows
    last: Rows
    tile: Rows
    share: Factor
    architectures: tuple[str, ...]
    source: Text

    def takes(self, gpu: GPUSpec, rows: float) -> bool:
        """Whether the kernel multiplies this many rows on a device."""
        return gpu.architecture in self.architectures and self.first <= rows <= self.last


class RowKernels(Frozen):
    """The kernels of one engine for few rows.

    - wide: architectures that have ``qmv_wide`` for weights in groups of integers.
    - linear: words in the titles of devices on which ``qmv_wide`` saves no time.
    - tile_from: architecture, or such a word, -> number of rows from which ``qmm`` runs.
    - tile: rows of its tile.
    - row: measured time of each further row of ``qmv``, relative to the first row.
    - dense_tile: rows of the tile of 16-bit weights, where they have no kernel for few rows: in old releases
      and on `linear` devices.
    - alone: up to this number of rows, each token reads its own experts.
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
        """Whether a device has ``qmv_wide`` for affine weights and is faster with it."""
        return gpu.architecture in self.wide and not self.is_linear(gpu)

    def is_linear(self, gpu: GPUSpec) -> bool:
        """Whether kernels for few rows save no time on a device."""
        return any(word in gpu.title.split() for word in self.linear)

    def first_tiled(self, gpu: GPUSpec) -> int:
        """Number of rows from which ``qmm`` runs."""
        words = (*gpu.title.split(), gpu.architecture)
        return next(self.tile_from[word] for word in words if word in self.tile_from)
