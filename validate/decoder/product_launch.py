"""Chooses the sizes with which the kernels of `triton_product` are launched. This module does not import
Triton.
"""

from typing import NamedTuple

from perfmodel.validate.decoder.tuning import tile_of


class Tile(NamedTuple):
    """The part of a matrix that a program computes.

    - outputs: the number of outputs.
    - stages: the number of tiles of inputs that are loaded at the same time. The table in docs/kernels.md
      states the shared memory that they take.
    """

    outputs: int
    stages: int


MAX_ROWS = 128
"""Largest number of rows for the kernels. From about this number on, the library's product fills the
device.
"""
NARROW_ROWS = 32
"""Largest padded number of rows with narrow tiles."""
NARROW = Tile(outputs=64, stages=5)
WIDE = Tile(outputs=128, stages=4)
"""The tiles for up to `NARROW_ROWS` rows, and for more rows."""
OUTPUTS_PER_WARP = 16
"""A matrix instruction of Hopper computes 64 outputs with four warps."""
INPUTS = 128
"""Inputs of a tile: the number of bytes that Hopper's shared memory keeps together."""
WARPS_PER_PROCESSOR = 8
"""Approximate number of warps of a product on each multiprocessor."""
PROCESSORS = 132
"""Number of multiprocessors that share a product: those of an H100."""


class ProductLaunch(NamedTuple):
    """The parameters of a launch of `_few_rows`.

    - sizes: the compile-time constants of the kernel.
    - parts: the number of parts of the inputs. Each part has its own programs.
    """

    sizes: dict[str, int]
    warps: int
    stages: int
    parts: int


def product_launch(rows: int, outputs: int, inputs: int) -> ProductLaunch:
    """The launch for x [rows, inputs] and a matrix [outputs, inputs]. The number of parts is chosen so that
    all programs together have about `WARPS_PER_PROCESSOR` warps on each multiprocessor.
    """
    pad = tile_of(rows, MAX_ROWS)
    tile = NARROW if pad <= NARROW_ROWS else WIDE
    warps = tile.outputs // OUTPUTS_PER_WARP
    wanted_programs = PROCESSORS * WARPS_PER_PROCESSOR / warps
    wanted_parts = max(1, round(wanted_programs / _quotient(outputs, tile.outputs)))
    tiles_of_part = _quotient(_quotient(inputs, INPUTS), wanted_parts)
    part = INPUTS * tiles_of_part
    sizes = {"PART": part, "PAD": pad, "TILE": tile.outputs, "INPUTS": INPUTS}
    return ProductLaunch(sizes, warps, tile.stages, _quotient(inputs, part))


def _quotient(count: int, size: int) -> int:
    """count / size, rounded up."""
    return -(-count // size)
