"""The verbs that measure: ``perfmodel validate plans | measure | microbench | finish``, their page
(``report``), and ``run``: kernels, a calibration from them alone, and whole passes with its predictions.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import flagged
from perfmodel.cli.output import Column, table
from perfmodel.reading import read_text
from perfmodel.specs import Calibration, load_gpu
from perfmodel.validate.accuracy import report as page
from perfmodel.validate.accuracy.compare import Cell, calibration_of, compare_record
from perfmodel.validate.cli import arguments as arg
from perfmodel.validate.harness.estimate import check as check_plan, estimate, fitting
from perfmodel.validate.harness.micro.write import destination_of, write_yaml
from perfmodel.validate.records import (
    RESULTS,
    Plan,
    Record,
    latest,
    load_plan,
    machine_folder,
    plan_names,
    quiet_line,
    read_record,
    records,
    scatter,
    speedup_half_widths,
)
from perfmodel.writing import write

BUSY_SHARE = 0.15
"""Share of busy CPUs before a measurement above which a warning is given."""
CARRIED = 0.15
"""Largest 90 % half-width of a measured speedup, as a share of it, with which it is compared."""
SHOWN = ("target_s", "draft_s", "verify_s", "speedup")
"""Figures that the terminal shows; `report` has them all."""


def plans() -> None:
    """List the plans that ship."""
    shipped = [load_plan(name) for name in plan_names()]
    rows = [[plan.name, str(len(plan.points())), plan.title] for plan in shipped]
    table(("plan", "points", Column("what", left=True)), rows)


@flagged
def measure(
    plan: arg.PlanName,
    machine: arg.Machine = "local-1",
    hardware: arg.ForHardware = None,
    calibration: arg.WithCalibration = None,
    threads: arg.Threads = None,
    dry_run: arg.DryRun = False,
    resume: arg.Resume = False,
    minutes: arg.Minutes = None,
    results: arg.ResultsFolder = None,
) -> int:
    """Time every point of a plan with the real decoder and print predicted and measured times.

    On a GPU, it leaves out batches and contexts that do not fit on the device.
    """
    chosen = for_hardware(plan, hardware, threads)
    if dry_run:
        _show_plan(chosen, calibration)
        return 0
    record = time_points(chosen, machine, calibration, resume, results or RESULTS, minutes=minutes)
    if record is not None:
        click.echo(quiet_line(record), err=True)
    return failed(record)


@flagged
def microbench(
    plan: arg.PlanName,
    machine: arg.Machine = "local-1",
    hardware: arg.ForHardware = None,
    threads: arg.Threads = None,
    dry_run: arg.DryRun = False,
    resume: arg.Resume = False,
    only: Annotated[tuple[str, ...], Argument("Kinds of kernels; repeatable.", "KIND", default="all")] = (),
    minutes: arg.Minutes = None,
    results: arg.ResultsFolder = None,
) -> None:
    """Time single kernels with the shapes of a plan's models."""
    from perfmodel.validate.harness.micro.jobs import jobs

    chosen = for_hardware(plan, hardware, threads, known=False)
    if dry_run:
        for job in jobs(chosen):
            if not only or job.kind in only:
                click.echo(job.key)
        return
    record = time_kernels(chosen, machine, resume, results or RESULTS, only, minutes)
    if record is not None:
        click.echo(f"record: {record.path}")
        click.echo(quiet_line(record), err=True)
        click.echo(f"next: perfmodel validate calibrate --from-microbench {record.path}")


@flagged
def finish(
    journal: Annotated[
        Path, Argument("Journal of an interrupted run in results/.", "FILE.journal", place=True)
    ],
) -> None:
    """Write the record of the finished rows of an interrupted run."""
    from perfmodel.validate.harness.session import finish_journal

    record = read_record(finish_journal(journal))
    click.echo(f"record: {record.path}, {len(record.data.points)} rows")


@flagged
def report(
    machine: Annotated[str, Argument("Label of the machine: a folder of results/.", "MACHINE", place=True)],
    hardware: arg.ForHardware = None,
    calibration: arg.WithCalibration = None,
    results: arg.ResultsFolder = None,
    check: Annotated[bool, Argument("Fail if the page is not up to date.")] = False,
) -> int:
    """Write the report of a machine: every predicted and measured figure."""
    where = machine_folder(machine, results or RESULTS) / "report.md"
    text = page.text(machine, results or RESULTS, hardware, calibration)
    if check:
        stale = not where.is_file() or read_text(where) != text
        click.echo(f"{where}: {'stale: run perfmodel validate report ' + machine if stale else 'up to date'}")
        return int(stale)
    write(where, text, "--results")
    click.echo(f"wrote {where}")
    return 0


def for_hardware(name: str, hardware: str | None, threads: int | None, known: bool = True) -> Plan:
    """The plan with the command line's changes. With `known` False, the device file is not read, because it
    is yet to be measured.
    """
    plan = load_plan(name)
    if hardware is not None and known:
        load_gpu(hardware)
    changes = {"hardware": hardware, "threads": threads}
    return plan.replace(**{key: value for key, value in changes.items() if value is not None})


def _record(plan: Plan, minutes: float | None, measured: Callable[..., Path | None]) -> Record | None:
    """The record of a run; None on ranks other than 0. Warns first if the machine is busy."""
    from perfmodel.validate.harness.environment import busy_share

    if plan.device == "cpu" and (busy := busy_share()) > BUSY_SHARE:
        effect = "the times will be of them too" if plan.threads != 1 else "the clock leaves their turns out"
        click.echo(f"WARNING: other processes use {busy:.0%} of the CPUs: {effect}", err=True)
    try:
        path = measured(deadline=math.inf if minutes is None else time.monotonic() + 60 * minutes)
    except KeyboardInterrupt:
        click.echo("\ninterrupted: every finished row is kept; go on with --resume", err=True)
        raise
    return read_record(path) if path else None


def time_kernels(
    plan: Plan,
    machine: str,
    resume: bool,
    results: Path,
    only: tuple[str, ...] = (),
    minutes: float | None = None,
) -> Record | None:
    """The record of a plan's kernels; None on ranks other than 0."""
    from perfmodel.validate.harness.micro.run import run_micro

    return _record(
        plan, minutes, partial(run_micro, plan, machine, resume=resume, results=results, only=only)
    )


def time_points(
    plan: Plan,
    machine: str,
    calibration: str | None,
    resume: bool,
    results: Path,
    hardware: str | None = None,
    minutes: float | None = None,
) -> Record | None:
    """The record of a plan's points, printed with predictions; None on ranks other than 0.

    hardware: the device of the predictions, if it was measured and differs from the plan's.
    """
    from perfmodel.validate.harness.measure import run_plan

    folder = machine_folder(machine, results)
    device = hardware or plan.hardware
    check_plan(plan.replace(hardware=device), calibration)
    named = {"hardware": device} | ({"calibration": calibration} if calibration else {})
    if plan.device == "cuda":
        whole = len(plan.points())
        plan = fitting(plan, calibration)
        if len(plan.points()) < whole:
            left_out = whole - len(plan.points())
            click.echo(f"{left_out} points do not fit {plan.hardware} and are left out", err=True)
    record = _record(
        plan,
        minutes,
        partial(
            run_plan,
            plan,
            machine,
            resume=resume,
            results=results,
            header={key: _recorded_name(name, folder) for key, name in named.items()},
        ),
    )
    if record is not None:
        _show_record(record, calibration)
        if len(record.rows) < len(plan.runs()):
            click.echo(
                f"stopped after {len(record.rows)} of {len(plan.runs())} rows: --minutes {minutes:g}",
                err=True,
            )
        click.echo(f"record: {record.path}")
    return record


def _recorded_name(name: str, folder: Path) -> str:
    """The name that a record keeps for a file: without the path in the record's own folder; other names
    unchanged.
    """
    path = Path(name)
    if path.is_file() and path.resolve().parent == folder.resolve():
        return path.name
    return name


def failed(record: Record | None) -> int:
    """Exit status of a measurement."""
    return int(record is not None and any(row.status == "failed" for row in record.rows))


def _show_plan(plan: Plan, calibration: str | None) -> None:
    estimates = estimate(plan, calibration)
    rows = []
    for e in estimates:
        memory = f"{e.needed_bytes / 1e9:.2f} GB"
        if not e.fits:
            memory += " (does not fit)"
        step = f"{e.target_s * 1e3:.2f} ms"
        iteration = f"{e.iteration_s * 1e3:.2f} ms"
        rows.append([e.point.name, memory, step, iteration, f"{e.speedup:.2f}", f"{e.seconds:.1f} s"])
    click.echo(
        f"{plan.name}: {plan.title}; predicted for {plan.hardware}, calibration {calibration or 'its own'}"
    )
    table(["point", "memory", "baseline step", "iteration", "speedup", "time"], rows)
    fit = [e for e in estimates if e.fits]
    points = f"{len(fit)} points"
    if len(fit) < len(estimates):
        points += f" of {len(estimates)}, those that fit"
    rows_to_run = len(fit) * len(plan.protocol.modes)
    minutes = sum(e.seconds for e in fit) / 60
    most_bytes = max((e.needed_bytes for e in fit), default=0)
    click.echo(
        f"{points}, {rows_to_run} rows, about {minutes:.1f} min, at most {most_bytes / 1e9:.1f} GB a device"
    )


def _show_record(record: Record, calibration: str | None) -> None:
    used = calibration_of(record, None, calibration)
    cells = compare_record(record, used)
    click.echo(f"{record.name}: predicted with {used.name} / measured / error")
    table(*page.point_table(cells, SHOWN))
    table(*page.error_table(cells, SHOWN))
    for line in page.below_bounds(cells):
        click.echo(f"WARNING: {line}", err=True)
    for row in record.failures():
        click.echo(f"{row.key}: {row.status}: {row.error}")


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
            "Folder for calibration and device file.",
            "FOLDER",
            "--output",
            default="the machine's",
            group="Output",
        ),
    ] = None,
    results: arg.ResultsFolder = None,
) -> int:
    """Time kernels, fit a calibration to them, then predict and measure the points of a plan.

    On a CPU it also writes the device file. On a GPU, use --hardware if the device is not that of the plan.
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
    device, place, fitted = _calibrated(
        kernels, machine, None if measured else chosen.hardware, out or folder
    )
    click.echo(fitted.notes, err=True)
    click.echo(f"2/3  calibration: {place}", err=True)
    click.echo(f"3/3  {len(chosen.runs())} rows of whole passes and whole iterations", err=True)
    record = time_points(
        chosen, machine, str(place), resume and _begun(folder, chosen.name), where, hardware=device
    )
    if record is not None:
        for line in closing(record, fitted, device, place):
            click.echo(line)
    return failed(record)


def _begun(folder: Path, name: str) -> bool:
    from perfmodel.validate.harness.session import unfinished

    return bool(unfinished(folder, name))


def _kernels(plan: Plan, machine: str, resume: bool, results: Path) -> Record | None:
    """Times the kernels, continues with them, or takes those that an interrupted run had finished."""
    going = _begun(machine_folder(machine, results), f"{plan.name}-micro")
    if resume and not going:
        mine = (r for r in records(results, machine) if r.data.plan_sha256 == plan.digest)
        if kernels := latest(mine, "microbench"):
            click.echo(f"     as timed before: {kernels.path}", err=True)
            return kernels
    return time_kernels(plan, machine, resume and going, results)


def _calibrated(
    kernels: Record, machine: str, device: str | None, folder: Path
) -> tuple[str, Path, Calibration]:
    """The device, the calibration's file and the calibration. With `device` None, the CPU's device file is
    written too.
    """
    from perfmodel.validate.harness.micro.fit import calibration_from
    from perfmodel.validate.harness.micro.host import host_spec

    stamp = kernels.path.stem.partition("-")[0]
    path = folder / f"{stamp}-calibration.yaml"
    if device is None:
        spec = host_spec(kernels, machine, path.name)
        device = str(write_yaml(spec, folder / f"{stamp}-device.yaml", f"Measured: {kernels.path.name}"))
    fitted = calibration_from(kernels, load_gpu(device))
    return device, write_yaml(fitted, path, f"From kernels alone: {kernels.path.name}"), fitted


def closing(record: Record, fitted: Calibration, device: str, path: Path) -> list[str]:
    """The command that uses the calibration, or the reasons against it; then what was found at each point."""
    from perfmodel.validate.accuracy.folder import calibration_doubts

    cells = [cell for cell in compare_record(record, fitted, device) if cell.quantity == "speedup"]
    widths = speedup_half_widths(record)
    reasons = [*calibration_doubts(fitted, cells)]
    if cells and all(widths[cell.point.row_id] > CARRIED for cell in cells):
        reasons.append(f"no speedup is measured within {CARRIED:.0%}: run it again")
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
    """A predicted speedup next to the measured one, where the scatter can carry the measurement."""
    p = cell.point
    place = f"batch {p.batch}, context {p.asked_context}, gamma {p.gamma}: predicted {cell.predicted:.2f}x"
    if width > CARRIED:
        return f"{place}, measured nothing certain (\u00b1 {width:.0%})"
    return f"{place}, measured {cell.measured:.2f}x \u00b1 {width * cell.measured:.2f}"
