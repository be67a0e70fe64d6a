"""``perfmodel calibrations``: the measured efficiencies and fixed costs of each device and software stack."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np

from perfmodel.answers.declaration import Argument
from perfmodel.cli.catalogue import Catalogue, Fact, app_of
from perfmodel.cli.commands import flagged
from perfmodel.errors import InputError, unknown_name
from perfmodel.specs import Calibration, load_calibration, load_gpu
from perfmodel.specs.boundary.files import bundled_names
from perfmodel.writing import write


def _constant(name: str, heading: str, show: Callable[[Any], str] = "{:.3g}".format, spare: int = 0) -> Fact:
    """The column of one constant."""
    return Fact(name, heading, lambda c: getattr(c, name).value, show, spare=spare)


def _rests_on(c: Calibration) -> str:
    """The data to which the constants were fitted. For an engine's file, these are the models that were
    measured on this device.
    """
    if c.errors:
        measured = {
            "steps": c.measured_models,
            "iterations": [model for model in c.speculating_models if model not in c.measured_models],
        }
        rows = "; ".join(f"{what} of {', '.join(models)}" for what, models in measured.items() if models)
        return rows or "kernels, and steps on other devices"
    basis = {"kernels": "kernels", "fitted": "measured rows", "ideal": "peaks"}
    return basis.get(c.kind, "other devices, or publications")


def _faults(c: Calibration) -> list[str]:
    """Faults that are not visible in one file alone: an unknown device, and a fit without its data set."""
    faults = []
    if c.kind == "fitted" and not c.fitted_on:
        faults.append("fitted_on: must name what a fitted calibration was fitted on")
    try:
        if c.gpu is not None:
            load_gpu(c.gpu, "gpu")
    except InputError as error:
        faults.append(error.as_flags)
    return faults


CATALOGUE = Catalogue(
    verb="calibrations",
    example="h100-sxm-80gb.vllm",
    noun="calibration",
    names=lambda: bundled_names("calibrations"),
    load=load_calibration,
    columns=(
        Fact("name", "name", lambda c: c.name),
        Fact("kind", "kind", lambda c: c.kind, left=True),
        Fact("gpu", "device", lambda c: c.gpu, left=True, spare=3),
        Fact("stack", "stack", lambda c: c.stack, left=True),
        Fact("rests_on", "based on", _rests_on, left=True, spare=5),
        _constant("gemm_bandwidth_fraction", "GEMM bandwidth", spare=1),
        _constant("attention_bandwidth_fraction", "attention bandwidth", spare=2),
        _constant("iteration_fixed_s", "us per iteration", lambda value: f"{value * 1e6:,.0f}"),
        Fact("date", "date", lambda c: str(c.date), spare=4),
    ),
    describe=lambda c: {k: v for k, v in c.as_mapping().items() if k not in c.absent},
    faults=_faults,
)
app = app_of(CATALOGUE)


@app.command("import", example="aiconfigurator unpacked --gpu h200 --engine vllm --out mine.yaml")
@flagged
def import_(
    format: Annotated[str, Argument("Origin of the tables: aiconfigurator.", "FORMAT", place=True)],
    path: Annotated[
        str,
        Argument("A folder with the unpacked package aiconfigurator-core.", "FOLDER", place=True),
    ],
    gpu: Annotated[str, Argument("Device, by name or path.", "NAME|PATH")],
    engine: Annotated[str, Argument("Engine of the tables: vllm, trtllm or sglang.", "NAME", group="Engine")],
    version: Annotated[
        str | None,
        Argument("Version of the engine in the tables.", "TEXT", default="the newest", group="Engine"),
    ] = None,
    out: Annotated[Path | None, Argument("File to write.", "FILE", default="stdout", group="Output")] = None,
) -> None:
    """Convert public kernel tables for a device and an engine into a calibration that states its fit
    errors.
    """
    from perfmodel.validate.fit.indexers import with_indexer
    from perfmodel.validate.fit.kernels import distil
    from perfmodel.validate.fit.kernels_file import COMMENT, calibration_of
    from perfmodel.validate.fit.tables import ENGINES, Tables
    from perfmodel.validate.harness.micro.write import as_yaml

    if format != "aiconfigurator":
        raise unknown_name("import", "format", format, ("aiconfigurator",))
    if engine not in ENGINES:
        raise unknown_name("--engine", "engine", engine, ENGINES)
    device = load_gpu(gpu, "--gpu")
    tables = Tables.of(path, device.name)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            kernels = with_indexer(distil(tables, device, engine, version), tables, device, engine, version)
            made = calibration_of(kernels, device, engine)
        except (LookupError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: must hold times that a roofline can be fitted to: {error}") from None
    text = as_yaml(made, COMMENT)
    if out is None:
        click.echo(text, nl=False)
    elif out.exists():
        raise InputError(f"--out: {out} exists; name a new file or remove it first")
    else:
        write(out, text, "--out")
        click.echo(f"wrote {out}")
