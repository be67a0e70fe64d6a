"""Which kernel takes how many rows under MLX, by hand."""

import pytest

from perfmodel.specs import load_gpu
from perfmodel.specs.engines.row_kernels import OwnKernel, RowKernels

KERNELS = RowKernels(
    wide=("Apple M3",),
    linear=("Ultra",),
    tile_from={"Apple M3": 13, "Ultra": 12},
    tile=32,
    row=0.75,
    dense_tile=64,
    alone=15,
    source="by hand",
)
FORK = OwnKernel(
    over="mlx", first=2, last=16, tile=8, share=1.0, architectures=("Apple M3",), source="by hand"
)
MAX = load_gpu("apple-m3-max-128gb")
ULTRA = load_gpu("apple-m3-ultra-512gb")
"""Of the same architecture."""
OLDER = load_gpu("apple-m1-max-64gb")


def test_an_ultra_tiles_from_its_own_number_of_rows() -> None:
    assert KERNELS.first_tiled(MAX) == 13
    assert KERNELS.first_tiled(ULTRA) == 12


def test_an_ultra_gains_nothing_by_the_kernel_for_few_rows() -> None:
    assert KERNELS.is_wide(MAX)
    assert not KERNELS.is_wide(ULTRA)
    assert not KERNELS.is_wide(OLDER)


@pytest.mark.parametrize(("rows", "takes"), [(1, False), (2, True), (16, True), (17, False)])
def test_the_kernel_of_a_fork_takes_its_first_and_its_last_number_of_rows(rows: int, takes: bool) -> None:
    assert FORK.takes(MAX, rows) == takes
    assert not FORK.takes(OLDER, rows)
