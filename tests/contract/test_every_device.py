"""What every file of a device must keep. A file that is added is found by its name, and held to the same."""

import pytest

from perfmodel.cli import gpus as gpu_catalogue
from perfmodel.specs import GPUSpec, files
from perfmodel.specs.boundary.frozen import annotations
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices import loading
from perfmodel.specs.devices.gpu import Link

GPUS = files.bundled_names("gpus")


ACCELERATORS = [name for name in GPUS if loading.load_bundled(name).kind != "cpu"]


def sourced(device: GPUSpec) -> dict[str, Quantity]:
    quantities: dict[str, Quantity] = {f"peak.{name}": q for name, q in device.peak.items()}
    for name in annotations(GPUSpec):
        value = getattr(device, name)
        if isinstance(value, Quantity):
            quantities[name] = value
        elif isinstance(value, Link):
            quantities[name] = value.per_direction
    return quantities


@pytest.mark.parametrize("name", GPUS)
def test_a_device_has_the_name_of_its_file_and_a_source_for_each_number(name: str) -> None:
    device = loading.load_bundled(name)
    assert device.name == name
    assert gpu_catalogue.CATALOGUE.faults(device) == []
    for key, q in sourced(device).items():
        assert len(q.source) > 3, key
        assert ("recalled" in q.source) <= (q.evidence == "recalled"), key


def test_an_alias_names_one_device_in_lower_case() -> None:
    seen = list(GPUS)
    for name in GPUS:
        seen += loading.load_bundled(name).aliases
    assert len(seen) == len(set(seen))
    assert all(alias == alias.lower() for alias in seen)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_peaks_bandwidths_and_memory_are_those_that_a_device_can_have(name: str) -> None:
    device = loading.load_bundled(name)
    bf16 = device.peak_flops("bf16")
    assert 20 < bf16 / device.memory_bandwidth_bytes_per_s < 600  # FLOP a byte: M4 Max 23, TPU v6e 560
    assert 6e9 <= device.memory_bytes <= 512e9
    assert 0.06e12 <= device.memory_bandwidth_bytes_per_s < 10e12  # LPDDR4X of the first M1: 68 GB/s
    for precision in ("fp8", "int8"):
        if precision in device.peak and (device.architecture, precision) != (
            "Blackwell Ultra",
            "int8",
        ):  # cut there
            assert 0.999 <= device.peak_flops(precision) / bf16 <= 4.004  # 1: emulated; 4: RTX int8
    if "fp32" in device.peak:
        assert device.peak_flops("fp32") <= bf16  # equal without matrix units
    assert device.link_rate(2) is None or 15e9 <= device.link_rate(2) <= 1000e9
