"""Times the kernels and points of a plan for a command, prints warnings and results, and returns the
record.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from perfmodel.cli.output import table
from perfmodel.specs import load_gpu
from perfmodel.validate.accuracy import report as page
from perfmodel.validate.accuracy.compare import calibration_of, compare_record
from perfmodel.validate.harness.estimate import check as check_plan, fitting
from perfmodel.validate.records import Plan, Record, load_plan, machine_folder, read_record

BUSY_SHARE = 0.15
"""Share of busy CPUs before a measurement above which a warning is given."""
SHOWN = ("target_s", "draft_s", "verify_s", "speedup")
"""The figures that are printed; `report` writes all of them."""


def for_hardware(name: str, hardware: str | None, threads: int | None, known: bool = True) -> Plan:
    """The plan with the device and threads of the command line.

    - known: whether the device file exists. It does not exist yet if this run measures the device. The file
      is then not read.
    """
    plan = load_plan(name)
    if hardware is not None and known:
        load_gpu(hardware)
    changes = {"hardware": hardware, "threads": threads}
    return plan.replace(**{key: value for key, value in changes.items() if value is not None})


def time_kernels(
    plan: Plan,
    machine: str,
    resume: bool,
    results: Path,
    only: tuple[str, ...] = (),
    minutes: float | None = None,
) -> Record | None:
    """Times the kernels of a plan and returns the record; None on ranks other than 0."""
    from perfmodel.validate.harness.micro.run import run_micro

    run = partial(run_micro, plan, machine, resume=resume, results=results, only=only)
    return _record(plan, minutes, run)


def time_points(
    plan: Plan,
    machine: str,
    calibration: str | None,
    resume: bool,
    results: Path,
    hardware: str | None = None,
    minutes: float | None = None,
) -> Record | None:
    """Times the points of a plan, prints them with predictions, and returns the record; None on ranks other
    than 0.

    - hardware: the device of the predictions, if it was measured and differs from the plan's.
    """
    from perfmodel.validate.harness.measure import run_plan

    folder = machine_folder(machine, results)
    device = hardware or plan.hardware
    check_plan(plan.replace(hardware=device), calibration)
    header = {"hardware": _recorded_name(device, folder)}
    if calibration:
        header["calibration"] = _recorded_name(calibration, folder)
    if plan.device == "cuda":
        plan = _fitting(plan, calibration)
    run = partial(run_plan, plan, machine, resume=resume, results=results, header=header)
    record = _record(plan, minutes, run)
    if record is not None:
        _show_record(record, calibration)
        if len(record.rows) < len(plan.runs()):
            click.echo(
                f"stopped after {len(record.rows)} of {len(plan.runs())} rows: --minutes {minutes:g}",
                err=True,
            )
        click.echo(f"record: {record.path}")
    return record


def failed(record: Record | None) -> int:
    """Exit status of a measurement: 1 if a row of the record failed."""
    return int(record is not None and any(row.status == "failed" for row in record.rows))


def busy_warning(busy: float, threads: int | None) -> str | None:
    """A warning about how other processes affect the times; None if they use at most `BUSY_SHARE` of the
    CPUs. A single thread is timed with its CPU time, which leaves out other processes.

    - busy: share of the CPUs, 0 to 1.
    - threads: the threads of the plan.
    """
    if busy <= BUSY_SHARE:
        return None
    effect = "the clock leaves their turns out" if threads == 1 else "the times will be of them too"
    return f"WARNING: other processes use {busy:.0%} of the CPUs: {effect}"


def _fitting(plan: Plan, calibration: str | None) -> Plan:
    """The plan with the points that fit its device. Prints how many points do not fit."""
    fits = fitting(plan, calibration)
    left_out = len(plan.points()) - len(fits.points())
    if left_out:
        click.echo(f"{left_out} points do not fit {plan.hardware} and are left out", err=True)
    return fits


def _record(plan: Plan, minutes: float | None, measured: Callable[..., Path | None]) -> Record | None:
    """The record of a run; None on ranks other than 0. Warns first if the machine is busy.

    - measured: times until a `deadline` of the monotonic clock, and returns the path of the record.
    """
    from perfmodel.validate.harness.host_cpu import busy_share

    if plan.device == "cpu" and (warning := busy_warning(busy_share(), plan.threads)):
        click.echo(warning, err=True)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    try:
        path = measured(deadline=deadline)
    except KeyboardInterrupt:
        click.echo("\ninterrupted: every finished row is kept; go on with --resume", err=True)
        raise
    return read_record(path) if path else None


def _recorded_name(name: str, folder: Path) -> str:
    """The name of a device or calibration in a record. A file in the record's own folder has no path."""
    path = Path(name)
    if path.is_file() and path.resolve().parent == folder.resolve():
        return path.name
    return name


def _show_record(record: Record, calibration: str | None) -> None:
    """Prints the predicted and measured times of a record, and the rows that failed."""
    used = calibration_of(record, None, calibration)
    cells = compare_record(record, used)
    click.echo(f"{record.name}: predicted with {used.name} / measured / error")
    table(*page.point_table(cells, SHOWN))
    table(*page.error_table(cells, SHOWN))
    for line in page.below_bounds(cells):
        click.echo(f"WARNING: {line}", err=True)
    for row in record.failures():
        click.echo(f"{row.key}: {row.status}: {row.error}")
