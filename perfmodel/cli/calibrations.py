"""``perfmodel calibrations``: how far each device and stack is from the ideal roofline."""

from collections.abc import Callable
from typing import Any

from perfmodel.cli.catalogue import Catalogue, Column, app_of
from perfmodel.errors import InputError
from perfmodel.specs.calibration import Calibration, load_calibration
from perfmodel.specs.files import bundled_names
from perfmodel.specs.gpu import load_gpu


def _constant(name: str, heading: str, show: Callable[[Any], str] = "{:g}".format, spare: int = 0) -> Column:
    return Column(name, heading, lambda c: getattr(c, name).value, show, spare=spare)


def _microseconds(value: float) -> str:
    return f"{value * 1e6:g}"


def _faults(c: Calibration) -> list[str]:
    """What a reader of one file cannot see: the device must be known, and a fit must say what it was fitted on."""
    faults = (
        [] if c.kind != "fitted" or c.fitted_on else ["fitted_on: must name what a fitted calibration was fitted on"]
    )
    try:
        if c.gpu is not None:
            load_gpu(c.gpu, "gpu")
    except InputError as error:
        faults.append(error.as_flags)
    return faults


CATALOGUE = Catalogue(
    noun="calibration",
    names=lambda: bundled_names("calibrations"),
    load=load_calibration,
    columns=(
        Column("name", "name", lambda c: c.name),
        Column("kind", "kind", lambda c: c.kind, left=True),
        Column("gpu", "device", lambda c: c.gpu, left=True, spare=3),
        Column("stack", "stack", lambda c: c.stack, left=True),
        _constant("gemm_bandwidth_fraction", "GEMM bandwidth", spare=1),
        _constant("attention_bandwidth_fraction", "attention bandwidth", spare=2),
        _constant("iteration_fixed_s", "us an iteration", _microseconds),
        Column("date", "date", lambda c: str(c.date), spare=4),
    ),
    describe=lambda c: c.model_dump(mode="json", exclude=c.absent),
    faults=_faults,
)
app = app_of(CATALOGUE)
