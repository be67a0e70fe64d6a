"""Times of products of several rows under MLX, in times of one row, by hand."""

import pytest

from perfmodel.specs import GPUSpec, load_gpu, serving_engines
from perfmodel.validate.studies.mlx_kernels import RowTimes, Shares
from perfmodel.validate.studies.mlx_shares import shares_of

KERNELS = serving_engines()["mlx"].row_kernels
assert KERNELS is not None
WIDE = load_gpu("apple-m4-32gb")
"""A chip whose kernel for few rows loads the weights once."""
ULTRA = load_gpu("apple-m3-ultra-512gb")
"""A chip that multiplies row by row, and in tiles from 12 rows on."""
SHARES = Shares(wide=0.2, tile=1.0)
FOUR_BITS = 0.5


def times(gpu: GPUSpec) -> RowTimes:
    assert KERNELS is not None
    return RowTimes(gpu, KERNELS, SHARES)


def row(gpu: GPUSpec, share: float) -> float:
    """The arithmetic of a row of 4-bit weights at a share of the peak, in times of the load."""
    return 2 * gpu.memory_bandwidth_bytes_per_s / (FOUR_BITS * gpu.peak_flops("bf16") * share)


def test_one_row_is_the_unit() -> None:
    assert times(WIDE).of(1, FOUR_BITS) == 1.0


def test_few_rows_load_once_and_blend_the_load_with_their_arithmetic() -> None:
    by_hand = (1 + (3 * row(WIDE, SHARES.wide)) ** 3) ** (1 / 3)
    assert times(WIDE).of(3, FOUR_BITS) == pytest.approx(by_hand)


def test_an_ultra_takes_each_row_alone_up_to_the_eight_that_were_measured() -> None:
    assert KERNELS is not None
    assert times(ULTRA).of(3, FOUR_BITS) == pytest.approx(1 + 2 * KERNELS.row)
    tiled = 32 * row(ULTRA, SHARES.tile)
    assert tiled < 1 + 7 * KERNELS.row, "a tile would be faster than eight rows were"
    assert times(ULTRA).of(12, FOUR_BITS) == pytest.approx(1 + 7 * KERNELS.row)


@pytest.mark.parametrize(("rows", "computed"), [(13, 32), (32, 32), (33, 64)])
def test_from_thirteen_rows_on_whole_tiles_of_32_are_computed(rows: int, computed: int) -> None:
    assert times(WIDE).of(rows, FOUR_BITS) == pytest.approx(computed * row(WIDE, SHARES.tile))


@pytest.mark.parametrize(
    ("gpu", "dense", "tile"),
    [(WIDE, True, 32), (WIDE, False, 64), (ULTRA, True, 64)],
    ids=["few rows", "an old release", "an Ultra"],
)
def test_sixteen_bits_take_a_tile_of_32_rows_or_of_64_without_a_kernel_for_few(
    gpu: GPUSpec, dense: bool, tile: int
) -> None:
    slow = Shares(wide=0.2, tile=0.1)
    assert KERNELS is not None
    in_tiles = RowTimes(gpu, KERNELS, slow, dense=dense).of(3, 2.0)
    arithmetic_of_a_row = 2 * gpu.memory_bandwidth_bytes_per_s / (2.0 * gpu.peak_flops("bf16") * slow.tile)
    assert in_tiles == pytest.approx(tile * arithmetic_of_a_row)


def test_a_generation_without_a_measured_product_computes_like_the_nearest_one() -> None:
    assert shares_of("Apple M6") == shares_of("Apple M5")
    assert shares_of("Apple M2") == shares_of("Apple M1")
    assert shares_of("Apple M5") != shares_of("Apple M1")
