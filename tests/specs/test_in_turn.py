"""Devices that run in turn: layers in proportion to memory, and the mean time, by hand."""

import pytest

from perfmodel import whatif
from perfmodel.specs import load_gpu
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.devices.in_turn import combined, parts_of
from tests.refusals import refused

SMALL = load_gpu("rtx-3090")
LARGE = load_gpu("h100-sxm-80gb")


def test_layers_are_shared_by_memory_and_times_add_up() -> None:
    both = combined([SMALL, LARGE])
    whole = SMALL.memory_bytes + LARGE.memory_bytes
    first = SMALL.memory_bytes / whole
    seconds = first / SMALL.memory_bandwidth.si + (1 - first) / LARGE.memory_bandwidth.si
    assert both.memory_bytes == whole
    assert both.memory_bandwidth.si == pytest.approx(1 / seconds)
    assert both.memory_bandwidth.unit == SMALL.memory_bandwidth.unit


def test_only_what_every_device_computes_is_computed() -> None:
    """The larger device gives the figures that are not added up; the smaller one has no fp8 peak."""
    for parts in ([SMALL, LARGE], [LARGE, SMALL]):
        both = combined(parts)
        assert "fp8" in LARGE.peak
        assert set(both.peak) == set(SMALL.peak) & set(LARGE.peak)
        assert both.architecture == LARGE.architecture
        assert both.link is None
        assert both.in_turn == tuple(part.name for part in parts)


def test_a_plus_in_a_name_of_one_device_cuts_nothing() -> None:
    def load(name: str, flag: str) -> GPUSpec:
        return load_gpu(name)

    assert [part.name for part in parts_of("rtx-3090 + h100", load, "--hardware")] == [SMALL.name, LARGE.name]
    assert parts_of("rtx-3090", load, "--hardware") == []
    assert parts_of("ryzen ai max+ 395 (Strix Halo)", load, "--hardware") == []
    assert parts_of("rtx-3090+nothing", load, "--hardware") == []


def test_devices_of_two_makers_share_one_server() -> None:
    both = load_gpu("rtx-4090-laptop+7900-xtx")
    assert both.vendor == "AMD"  # the maker of the larger one
    assert both.makers_in_turn == ("AMD", "NVIDIA")
    answer = whatif("qwen3.8-27b", both.name, 1, 4096, 0, weights="q4_k_m")
    assert any("devices of AMD and NVIDIA share one server" in warning for warning in answer.warnings)


@pytest.mark.parametrize("mac", ["m4-max", "m1"])
def test_a_mac_has_no_devices_of_other_makers(mac: str) -> None:
    refused("devices of one computer", combined, [SMALL, load_gpu(mac)])
    refused("devices of one computer", combined, [load_gpu(mac), load_gpu(mac)])


def test_a_board_fits_beside_a_chip_with_shared_memory_of_amd() -> None:
    chip = load_gpu("strix-halo")
    assert combined([chip, SMALL]).memory_bytes == chip.memory_bytes + SMALL.memory_bytes
    alone = [load_gpu(name) for name in ("dgx-spark", "gh200")]
    for parts in ([chip, chip.replace(name="next-halo")], [chip, chip], *([one, SMALL] for one in alone)):
        refused("--hardware: must be devices of one computer", combined, parts)


def test_devices_in_turn_are_not_split_by_tensors() -> None:
    ask = ("llama-3.1-8b", "rtx-3090+rtx-4090", 1, 4096)
    refused("tp: must be 1 with layer_split: llama.cpp splits by layers or by tensors", whatif, *ask, tp=2)
