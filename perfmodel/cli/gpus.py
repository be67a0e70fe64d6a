"""``perfmodel gpus``: the data sheets of the devices."""

from typing import Any, get_args

from perfmodel.cli.catalogue import Catalogue, Fact, app_of
from perfmodel.errors import InputError
from perfmodel.specs import GPUSpec, calibration_of, engine_of, load_calibration, load_gpu, serving_engines
from perfmodel.specs.boundary.files import bundled_names
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices.gpu import Precision


def _scaled(factor: float) -> Any:
    """A function that formats a value, divided by a factor, with four digits or all digits before the
    point.
    """

    def text(value: float) -> str:
        scaled = value / factor
        return f"{scaled:.0f}" if scaled >= 1000 else f"{scaled:.4g}"

    return text


def _si(quantity: Quantity | None) -> float | None:
    return quantity.si if quantity else None


SPARE = {"fp32": 7, "fp4": 4, "int8": 3, "fp8": 2}
"""Columns of peaks that a narrow terminal may drop."""


def _peak(precision: Precision) -> Fact:
    return Fact(
        f"{precision}_flops_per_s",
        f"{precision} TFLOP/s",
        lambda g: _si(g.peak.get(precision)),
        _scaled(1e12),
        spare=SPARE.get(precision, 0),
    )


def _answers_with(gpu: GPUSpec) -> str:
    """The calibration that is used without --engine and --calibration."""
    return calibration_of(gpu).name


def _faults(gpu: GPUSpec) -> list[str]:
    """Faults that are not visible in the device's file alone: its calibration must exist, and a bundled
    calibration must not be that of a serving engine.
    """
    try:
        named = load_calibration(gpu.calibration, "calibration")
    except InputError as error:
        return [error.as_flags]
    if gpu.calibration in bundled_names("calibrations") and engine_of(named) in serving_engines():
        return [
            f"calibration: must not be a serving engine's (--engine finds those), given {gpu.calibration!r}"
        ]
    return []


CATALOGUE = Catalogue(
    verb="gpus",
    example="h100",
    noun="device",
    names=lambda: bundled_names("gpus"),
    load=load_gpu,
    columns=(
        Fact("name", "name", lambda g: g.name),
        Fact("memory_bytes", "GB", lambda g: _si(g.memory), _scaled(1e9)),
        Fact("memory_bandwidth_bytes_per_s", "GB/s", lambda g: g.memory_bandwidth_bytes_per_s, _scaled(1e9)),
        *(_peak(precision) for precision in get_args(Precision)),
        Fact("last_level_cache_bytes", "LLC MB", lambda g: _si(g.last_level_cache), _scaled(1e6), spare=6),
        Fact("link_bytes_per_s", "link GB/s", lambda g: g.link_rate(2), _scaled(1e9), spare=5),
        Fact("calibration", "calibration", _answers_with, left=True, spare=1),
    ),
    describe=lambda g: g.as_mapping() | {"calibration": _answers_with(g)},
    faults=_faults,
)
app = app_of(CATALOGUE)
