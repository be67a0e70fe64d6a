"""``perfmodel validate run``: kernels, a calibration from them alone, and whole passes with its
predictions.
"""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.question.declaration import Argument
from perfmodel.cli.options import flagged
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.devices.gpu import load_gpu
from perfmodel.validate.cli import arguments as arg
from perfmodel.validate.cli.measure import failed, for_hardware, time_kernels, time_points
from perfmodel.validate.records.plan import Plan
from perfmodel.validate.records.store import RESULTS, Record, latest, machine_folder, records


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
    from perfmodel.validate.harness.micro.write import destination_of

    chosen, where = for_hardware(plan, hardware, threads, known=hardware is not None), results or RESULTS
    folder = machine_folder(machine, where)
    if out is not None:
        destination_of(out / "calibration.yaml")
    click.echo(f"1/3  kernels of {chosen.name} (no whole pass)", err=True)
    kernels = _kernels(chosen, machine, resume, where)
    if kernels is None:
        return 0
    measured = chosen.device == "cpu" and hardware is None
    device, place, fitted = _made(kernels, machine, None if measured else chosen.hardware, out or folder)
    click.echo(fitted.notes, err=True)
    click.echo(f"2/3  calibration: {place}", err=True)
    click.echo(f"3/3  {len(chosen.runs())} rows of whole passes and whole iterations", err=True)
    record = time_points(
        chosen, machine, str(place), resume and _begun(folder, chosen.name), where, hardware=device
    )
    if record is not None:
        for line in closing(kernels, record, fitted, device, place):
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
        if found := latest(mine, "microbench"):
            click.echo(f"     as timed before: {found.path}", err=True)
            return found
    return time_kernels(plan, machine, resume and going, results)


def _made(kernels: Record, machine: str, device: str | None, folder: Path) -> tuple[str, Path, Calibration]:
    """The device, the calibration's file and the calibration. With `device` None, the CPU's device file is
    written too.
    """
    from perfmodel.validate.harness.micro.fit import calibration_from
    from perfmodel.validate.harness.micro.host import host_spec
    from perfmodel.validate.harness.micro.write import write_yaml

    stamp = kernels.path.stem.partition("-")[0]
    path = folder / f"{stamp}-calibration.yaml"
    if device is None:
        spec = host_spec(kernels, machine, path.name)
        device = str(write_yaml(spec, folder / f"{stamp}-device.yaml", f"Measured: {kernels.path.name}"))
    fitted = calibration_from(kernels, load_gpu(device))
    return device, write_yaml(fitted, path, f"From kernels alone: {kernels.path.name}"), fitted


def closing(kernels: Record, record: Record, fitted: Calibration, device: str, path: Path) -> list[str]:
    """The command that uses the calibration; or the reasons not to rely on it, and the advice to measure
    again.
    """
    from perfmodel.validate.accuracy.compare import compare_record
    from perfmodel.validate.accuracy.doubts import doubts

    compared = compare_record(record, fitted, device)
    if found := [*doubts({"kernels": kernels, "passes": record}, fitted, compared)]:
        again = "measure again on a quiet machine, or with --threads 1, before asking with it"
        return ["", f"NOT TO BE RELIED ON: {path}", *(f"  {doubt}" for doubt in found), again]
    question = "--model llama-3.2-1b --batch 1 --context 8k --draft-kv streamingllm:512 --alpha 0.8"
    return ["", f"ask: perfmodel whatif --hardware {device} --calibration {path} {question}"]
