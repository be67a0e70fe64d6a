"""The launch of the fp8 product: tiles as on the page about kernels, and enough programs to fill a GPU."""

import re
from pathlib import Path

import pytest

from perfmodel.validate.decoder.product_launch import ProductLaunch, product_launch
from perfmodel.validate.decoder.tuning import tile_of

PAGE = (Path(__file__).parents[3] / "docs" / "kernels.md").read_text(encoding="utf-8")
H100_PROCESSORS = 132
SHAPES = [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336)]
"""Outputs and inputs of the matrices of Llama-3.1-8B."""


def programs(launch: ProductLaunch, outputs: int) -> int:
    return launch.parts * -(-outputs // launch.sizes["TILE"])


@pytest.mark.parametrize("rows", [5, 24, 64, 100])
def test_the_page_states_the_warps_the_stages_and_the_shared_memory(rows: int) -> None:
    """A stage has a tile of the matrix and one of the rows, with one byte per value."""
    launch = product_launch(rows, 4096, 4096)
    tile_bytes = (launch.sizes["TILE"] + launch.sizes["PAD"]) * launch.sizes["INPUTS"]
    shared_kib = launch.stages * tile_bytes / 1024
    stated = re.findall(rf"`few_rows` \| {rows} rows .*\| (\d) warps, (\d) stages \|.* (\S+) \|\n", PAGE)
    assert stated
    assert set(stated) == {(str(launch.warps), str(launch.stages), f"{shared_kib:.1f}")}


@pytest.mark.parametrize("rows", [1, 32, 33, 128])
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_all_programs_have_about_eight_warps_on_each_multiprocessor(
    rows: int, outputs: int, inputs: int
) -> None:
    launch = product_launch(rows, outputs, inputs)
    warps = launch.warps * programs(launch, outputs) / H100_PROCESSORS
    assert 5 < warps < 14
    one_more = programs(launch._replace(parts=launch.parts + 1), outputs)
    assert launch.warps * one_more / H100_PROCESSORS > 8


@pytest.mark.parametrize(("rows", "pad", "tile"), [(1, 16, 64), (32, 32, 64), (33, 64, 128), (128, 128, 128)])
def test_up_to_32_rows_have_narrow_tiles(rows: int, pad: int, tile: int) -> None:
    sizes = product_launch(rows, 4096, 4096).sizes
    assert (sizes["PAD"], sizes["TILE"]) == (pad, tile)


def test_the_parts_cover_all_inputs() -> None:
    launch = product_launch(5, 512, 1000)
    assert launch.sizes["PART"] % launch.sizes["INPUTS"] == 0
    assert (launch.parts - 1) * launch.sizes["PART"] < 1000 <= launch.parts * launch.sizes["PART"]


@pytest.mark.parametrize(("rows", "tile"), [(1, 16), (16, 16), (17, 32), (64, 64), (100, 64)])
def test_a_tile_is_a_power_of_two_from_16_to_the_given_number(rows: int, tile: int) -> None:
    assert tile_of(rows, 64) == tile
