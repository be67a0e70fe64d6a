"""The verbs that measure: ``perfmodel validate plans | measure | microbench | finish``."""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import flagged
from perfmodel.cli.output import Column, table
from perfmodel.validate.cli import arguments as arg
from perfmodel.validate.cli.timing import failed, for_hardware, time_kernels, time_points
from perfmodel.validate.harness.estimate import estimate
from perfmodel.validate.records import RESULTS, Plan, load_plan, plan_names, quiet_line, read_record


def plans() -> None:
    """List the bundled plans."""
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

    On a GPU, the command leaves out batches and contexts that do not fit on the device.
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
    only: Annotated[
        tuple[str, ...], Argument("Kind of kernel to time; may be repeated.", "KIND", default="all")
    ] = (),
    minutes: arg.Minutes = None,
    results: arg.ResultsFolder = None,
) -> None:
    """Time individual kernels with the shapes of a plan's models."""
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
    """Write a record with the finished rows of an interrupted run."""
    from perfmodel.validate.harness.run_journal import finish_journal

    record = read_record(finish_journal(journal))
    click.echo(f"record: {record.path}, {len(record.data.points)} rows")


def _show_plan(plan: Plan, calibration: str | None) -> None:
    """Prints the points of a plan with their memory and predicted times, and the total time."""
    estimates = estimate(plan, calibration)
    rows = []
    for e in estimates:
        memory = f"{e.needed_bytes / 1e9:.2f} GB"
        if not e.fits:
            memory += " (does not fit)"
        step = f"{e.times.target_s * 1e3:.2f} ms"
        iteration = f"{e.times.iteration_s * 1e3:.2f} ms"
        rows.append([e.point.name, memory, step, iteration, f"{e.times.speedup:.2f}", f"{e.seconds:.1f} s"])
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
