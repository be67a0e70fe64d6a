"""The verbs of measuring under ``perfmodel validate``: plans, measure, microbench, run, report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError

if TYPE_CHECKING:
    from perfmodel.validate.harness.plans import Plan
    from perfmodel.validate.records.record import Record

MACHINE = typer.Option(help="Label of this machine, such as h200-1: the folder under results/. Never a host name.")
HARDWARE = typer.Option(help="Device predictions are for, by name or path [the plan's].")
CALIBRATION = typer.Option(help="Calibration by name or path [the device's own].")
THREADS = typer.Option(help="CPU threads [the plan's, else torch's choice]; another number is another plan.")
RESULTS = typer.Option(help="Folder of all results [results/ of the source tree].")
BUSY_SHARE = 0.15
"""Above this share of the CPUs in use before a measurement begins, it says so."""
PLAN = typer.Argument(help="A plan of validate/plans, or a file.")


def register(app: typer.Typer) -> None:
    """Put the verbs under an app."""
    for verb in (measure, microbench, run, report, plans):
        app.command()(verb)


def plans() -> None:
    """List the plans that ship."""
    from perfmodel.validate.harness.plans import load_plan, plan_names

    for name in plan_names():
        plan = load_plan(name)
        typer.echo(f"{name:16} {len(plan.points()):3} points  {plan.title}")


def measure(
    plan: Annotated[str, PLAN],
    machine: Annotated[str, MACHINE] = "local-1",
    hardware: Annotated[str | None, HARDWARE] = None,
    calibration: Annotated[str | None, CALIBRATION] = None,
    threads: Annotated[int | None, THREADS] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print points, memory and time; run nothing.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest interrupted run of the plan.")
    ] = False,
    results: Annotated[Path | None, RESULTS] = None,
) -> int:
    """Time every point of a plan with the real decoder and print predicted beside measured."""
    from perfmodel.validate.harness.plans import load_plan

    chosen = _for_hardware(load_plan(plan), hardware, threads)
    if dry_run:
        _show_plan(chosen, calibration)
        return 0
    return _measure(chosen, machine, calibration, resume, results)


def microbench(
    plan: Annotated[str, PLAN],
    machine: Annotated[str, MACHINE] = "local-1",
    hardware: Annotated[str | None, HARDWARE] = None,
    threads: Annotated[int | None, THREADS] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the kernels; run nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the latest interrupted run.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Kinds of kernels, repeatable [all].")] = None,
    results: Annotated[Path | None, RESULTS] = None,
) -> int:
    """Time kernels alone, at the shapes of a plan's models."""
    from perfmodel.validate.harness.micro.grid import jobs
    from perfmodel.validate.harness.plans import load_plan
    from perfmodel.validate.records.record import read_record
    from perfmodel.validate.records.summary import quiet_line

    chosen = _for_hardware(load_plan(plan), hardware, threads, known=False)
    if dry_run:
        for job in jobs(chosen):
            if not only or job.kind in only:
                typer.echo(job.key)
        return 0
    path = _microbench(chosen, machine, resume, results, tuple(only or ()))
    if path is not None:
        typer.echo(f"record: {path}")
        typer.echo(quiet_line(read_record(path)), err=True)
        typer.echo(f"next: perfmodel validate calibrate --from-microbench {path}")
    return 0


def run(
    plan: Annotated[str, PLAN] = "cpu-quick",
    machine: Annotated[str, MACHINE] = "local-1",
    hardware: Annotated[str | None, HARDWARE] = None,
    threads: Annotated[int | None, THREADS] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for calibration and device file [the machine's].")] = None,
    results: Annotated[Path | None, RESULTS] = None,
) -> int:
    """All of it: kernels, a calibration from them alone, the plan's points, predicted beside measured.

    For a CPU the device file is made too; a GPU is named by --hardware where it is not the plan's.
    """
    from perfmodel.validate.harness.micro.write import calibrate_from_microbench, device_from, write_yaml
    from perfmodel.validate.harness.plans import load_plan
    from perfmodel.validate.harness.recorder import machine_folder
    from perfmodel.validate.records.record import RESULTS as DEFAULT
    from perfmodel.validate.records.record import read_record
    from perfmodel.validate.records.summary import is_quiet, quiet_line

    chosen = _for_hardware(load_plan(plan), hardware, threads, known=hardware is not None)
    typer.echo(f"1/3  kernels of {chosen.name} (no whole pass)", err=True)
    record = _microbench(chosen, machine, False, results, ())
    if record is None:
        return 0
    folder = out or machine_folder(machine, results or DEFAULT)
    stamp = record.stem.partition("-")[0]
    if chosen.device == "cpu" and hardware is None:
        spec = device_from(record, machine)
        device = write_yaml(spec, folder / f"{stamp}-device.yaml", f"Measured: {record.name}")
        chosen = chosen.model_copy(update={"hardware": str(device)})
    fitted = calibrate_from_microbench(record, chosen.hardware)
    path = write_yaml(fitted, folder / f"{stamp}-calibration.yaml", f"From kernels alone: {record.name}")
    typer.echo(fitted.notes, err=True)
    typer.echo(f"2/3  calibration: {path}", err=True)
    typer.echo("3/3  whole passes and whole iterations", err=True)
    status = _measure(chosen, machine, str(path), False, results)
    if not is_quiet(read_record(record)):
        typer.echo(f"kernels: {quiet_line(read_record(record))}", err=True)
    device_flag = chosen.hardware
    typer.echo(
        f"\nask: perfmodel whatif --hardware {device_flag} --calibration {path} --model ... --batch ... --context ..."
    )
    return status


def report(
    machine: Annotated[str, typer.Argument(help="Label of the machine: a folder of results/.")],
    hardware: Annotated[str | None, HARDWARE] = None,
    calibration: Annotated[str | None, CALIBRATION] = None,
    results: Annotated[Path | None, RESULTS] = None,
    check: Annotated[bool, typer.Option("--check", help="Fail where the page is not up to date.")] = False,
) -> int:
    """Write the page of a machine: every figure predicted beside measured, with pictures."""
    from perfmodel.validate.accuracy import report as page
    from perfmodel.validate.harness.recorder import machine_folder
    from perfmodel.validate.records.record import RESULTS as DEFAULT

    machine_folder(machine, results or DEFAULT)
    text = page.text(machine, results or DEFAULT, hardware, calibration)
    path = (results or DEFAULT) / machine / "report.md"
    if check:
        stale = not path.is_file() or path.read_text(encoding="utf-8") != text
        typer.echo(f"{path}: {'stale: run perfmodel validate report ' + machine if stale else 'up to date'}")
        return int(stale)
    path.write_text(text, encoding="utf-8")
    for name in page.pictures(machine, results or DEFAULT, hardware, calibration):
        typer.echo(f"wrote {name}")
    typer.echo(f"wrote {path}")
    return 0


def _for_hardware(plan: "Plan", hardware: str | None, threads: int | None, known: bool = True) -> "Plan":
    """The plan with what the command line changes. `known` False leaves a device unread that is yet to be measured."""
    from perfmodel.specs.gpu import load_gpu

    if hardware is not None and known:
        load_gpu(hardware)
    if threads is not None and threads < 1:
        raise InputError(f"--threads: must be 1 or more, given {threads}")
    changes = {"hardware": hardware, "threads": threads}
    return plan.model_copy(update={key: value for key, value in changes.items() if value is not None})


def _warn_where_busy(plan: "Plan") -> None:
    from perfmodel.validate.harness.environment import busy_share

    if plan.device == "cpu" and (busy := busy_share()) > BUSY_SHARE:
        typer.echo(f"WARNING: other processes use {busy:.0%} of the CPUs: the times will be of them too", err=True)


def _microbench(plan: "Plan", machine: str, resume: bool, results: Path | None, only: tuple[str, ...]) -> Path | None:
    from perfmodel.validate.harness.micro.run import run_micro
    from perfmodel.validate.records.record import RESULTS as DEFAULT

    _warn_where_busy(plan)
    try:
        return run_micro(plan, machine, resume=resume, results=results or DEFAULT, only=only)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: every finished row is kept; go on with --resume", err=True)
        raise


def _measure(plan: "Plan", machine: str, calibration: str | None, resume: bool, results: Path | None) -> int:
    from perfmodel.validate.accuracy.beside import bench_of
    from perfmodel.validate.harness.estimate import Bench, check
    from perfmodel.validate.harness.measure import run_plan
    from perfmodel.validate.records.record import RESULTS as DEFAULT
    from perfmodel.validate.records.record import read_record

    check(plan, Bench.of(plan, None, calibration))
    _warn_where_busy(plan)
    try:
        path = run_plan(plan, machine, resume=resume, results=results or DEFAULT)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: every finished row is kept; go on with --resume", err=True)
        raise
    if path is None:
        return 0
    record = read_record(path)
    bench = bench_of(record, None, calibration)
    _show_record(record, bench.calibration.name, plan.hardware, calibration)
    typer.echo(f"record: {path}")
    return int(any(row.status == "failed" for row in record.rows))


def _show_plan(plan: "Plan", calibration: str | None) -> None:
    from perfmodel.validate.accuracy.report import table
    from perfmodel.validate.harness.estimate import Bench, estimate

    bench = Bench.of(plan, None, calibration)
    found = estimate(plan, bench)
    rows = [
        [e.point.key, f"{e.needed_bytes / 1e9:.2f} GB" + ("" if e.fits else " (does not fit)"),
         f"{e.target_s * 1e3:.2f} ms", f"{e.iteration_s * 1e3:.2f} ms", f"{e.speedup:.2f}", f"{e.seconds:.1f} s"]
        for e in found
    ]  # fmt: skip
    typer.echo(f"{plan.name}: {plan.title}; predicted for {bench.gpu.name}, {bench.calibration.name}")
    header = ["point", "memory", "plain step", "iteration", "speedup", "time"]
    typer.echo("\n".join(table(header, rows)))
    total = sum(e.seconds for e in found)
    typer.echo(f"{len(found)} points, {len(plan.runs())} rows, about {total / 60:.1f} min, "
               f"at most {max(e.needed_bytes for e in found) / 1e9:.1f} GB a device")  # fmt: skip


def _show_record(record: "Record", name: str, hardware: str, calibration: str | None) -> None:
    from perfmodel.validate.accuracy.beside import below_bounds, bench_of, sides
    from perfmodel.validate.accuracy.report import error_lines, point_lines
    from perfmodel.validate.records.summary import quiet_line

    compared = sides(record, bench_of(record, hardware, calibration))
    typer.echo(f"{record.name}: predicted with {name} / measured / error")
    typer.echo("\n".join(point_lines(compared)))
    typer.echo("\n".join(error_lines(compared)))
    for key, figures in below_bounds(compared).items():
        typer.echo(f"WARNING: {key}: {', '.join(figures)} below the physical bound of {hardware}", err=True)
    typer.echo(quiet_line(record), err=True)
    for row in record.failures():
        typer.echo(f"{row.key}: {row.status}: {row.error}")
