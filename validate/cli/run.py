"""``perfmodel validate run``: time kernels, fit a calibration to them alone, and test its predictions on
whole passes.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import flagged
from perfmodel.specs import Calibration, load_gpu
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.compare import compare_record
from perfmodel.validate.cli import arguments as arg
from perfmodel.validate.cli.timing import failed, for_hardware, time_kernels, time_points
from perfmodel.validate.harness.micro.write import destination_of, write_yaml
from perfmodel.validate.records import (
    RESULTS,
    Plan,
    Record,
    latest,
    machine_folder,
    records,
    scatter,
    speedup_half_widths,
)

WIDEST = 0.15
"""Largest relative half-width of the 90 % interval of a measured speedup that is printed. The value is a
choice.
"""


@flagged
def run(
    plan: arg.PlanName = "cpu-quick",
    machine: arg.Machine = "local-1",
    hardware: arg.ForHardware = None,
    threads: arg.Threads = None,
    resume: arg.Resume = False,
    out: Annotated[
        Path | None,
        Argument(
            "Folder for the calibration and the device file.",
            "FOLDER",
            "--output",
            default="the machine's",
            group="Output",
        ),
    ] = None,
    results: arg.ResultsFolder = None,
) -> int:
    """Time kernels, fit a calibration to them, then predict and measure the points of a plan.

    On a CPU, the command also writes the device file. On a GPU, use --hardware if the device is not that of
    the plan.
    """
    chosen = for_hardware(plan, hardware, threads, known=hardware is not None)
    where = results or RESULTS
    folder = machine_folder(machine, where)
    if out is not None:
        destination_of(out / "calibration.yaml")
    click.echo(f"1/3  kernels of {chosen.name} (no whole pass)", err=True)
    kernels = _kernels(chosen, machine, resume, where)
    if kernels is None:
        return 0
    measured = chosen.device == "cpu" and hardware is None
    known_device = None if measured else chosen.hardware
    fitted = _calibrated(kernels, machine, known_device, out or folder)
    click.echo(fitted.calibration.notes, err=True)
    click.echo(f"2/3  calibration: {fitted.path}", err=True)
    click.echo(f"3/3  {len(chosen.runs())} rows of whole passes and whole iterations", err=True)
    goes_on = resume and _begun(folder, chosen.name)
    record = time_points(chosen, machine, str(fitted.path), goes_on, where, hardware=fitted.device)
    if record is not None:
        for line in closing(record, fitted.calibration, fitted.device, fitted.path):
            click.echo(line)
    return failed(record)


def _begun(folder: Path, name: str) -> bool:
    """Whether an interrupted run of this name can be continued."""
    from perfmodel.validate.harness.run_journal import unfinished

    return bool(unfinished(folder, name))


def _kernels(plan: Plan, machine: str, resume: bool, results: Path) -> Record | None:
    """The record of the plan's kernels; None on ranks other than 0. With `resume`, an interrupted record is
    continued, and the latest complete record of the plan is used again.
    """
    interrupted = _begun(machine_folder(machine, results), f"{plan.name}-micro")
    if resume and not interrupted:
        of_plan = (r for r in records(results, machine) if r.data.plan_sha256 == plan.digest)
        kernels = latest(of_plan, "microbench")
        if kernels:
            click.echo(f"     as timed before: {kernels.path}", err=True)
            return kernels
    return time_kernels(plan, machine, resume and interrupted, results)


class WrittenCalibration(NamedTuple):
    """A calibration, the file that it was written to, and the name or file of its device."""

    device: str
    path: Path
    calibration: Calibration


def _calibrated(kernels: Record, machine: str, device: str | None, folder: Path) -> WrittenCalibration:
    """Fits a calibration and writes it. If `device` is None, the device file of the CPU is also written."""
    from perfmodel.validate.harness.micro.fit import calibration_from
    from perfmodel.validate.harness.micro.host import host_spec

    stamp = kernels.path.stem.partition("-")[0]
    path = folder / f"{stamp}-calibration.yaml"
    if device is None:
        spec = host_spec(kernels, machine, path.name)
        device = str(write_yaml(spec, folder / f"{stamp}-device.yaml", f"Measured: {kernels.path.name}"))
    fitted = calibration_from(kernels, load_gpu(device))
    written = write_yaml(fitted, path, f"From kernels alone: {kernels.path.name}")
    return WrittenCalibration(device, written, fitted)


def closing(record: Record, fitted: Calibration, device: str, path: Path) -> list[str]:
    """The last printed lines: the command that uses the calibration, or the reasons not to use it, and then
    the predicted and measured speedup of each point.
    """
    from perfmodel.validate.accuracy.doubts import calibration_doubts

    cells = [cell for cell in compare_record(record, fitted, device) if cell.quantity == "speedup"]
    widths = speedup_half_widths(record)
    reasons = [*calibration_doubts(fitted, cells)]
    if cells and all(widths[cell.point.row_id] > WIDEST for cell in cells):
        reasons.append(f"no speedup is measured within {WIDEST:.0%}: run it again")
    lines = [""]
    if reasons:
        lines += [f"NOT TO BE RELIED ON: {path}", *(f"  {reason}" for reason in reasons)]
    else:
        lines.append(
            f"ask: perfmodel whatif --hardware {device} --calibration {path} --model llama-3.2-1b --batch 1 "
            "--context 8k --draft-kv streamingllm:512 --alpha 0.8"
        )
    scattered = f"this machine's timings scatter by {scatter(record):.0%}"
    return [*lines, *(_finding(cell, widths[cell.point.row_id]) for cell in cells), scattered]


def _finding(cell: Cell, width: float) -> str:
    """A predicted speedup, and the measured speedup if its interval is narrow enough (`WIDEST`).

    - width: the relative half-width of the interval.
    """
    p = cell.point
    place = f"batch {p.batch}, context {p.asked_context}, gamma {p.gamma}: predicted {cell.predicted:.2f}x"
    if width > WIDEST:
        return f"{place}, measured nothing certain (\u00b1 {width:.0%})"
    return f"{place}, measured {cell.measured:.2f}x \u00b1 {width * cell.measured:.2f}"
