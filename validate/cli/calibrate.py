"""``perfmodel validate calibrate``: fit a calibration to published rows or to kernels, and judge it."""

import datetime
from dataclasses import KW_ONLY, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, NamedTuple

import click

from perfmodel.answers.declaration import Argument, Question, question
from perfmodel.cli.commands import Json, takes
from perfmodel.cli.output import print_json
from perfmodel.errors import InputError, about_file
from perfmodel.specs import Calibration, load_gpu
from perfmodel.validate.cli.accuracy import need_studies
from perfmodel.validate.cli.arguments import SHOWN_FOLDER, Out, Write
from perfmodel.validate.fit.recipes import RECIPES, recipe_of
from perfmodel.validate.records import BUNDLED, RESULTS, Record, newest, points, quiet_line
from perfmodel.writing import destination, write_all

STUDIES = ("engines", "llamacpp", "mlx", "sources")
"""Names of studies of public rows. Each study has fixed held-out groups."""


@question
class CalibrateQuestion(Question):
    """The calibration to fit, the measurements for the fit, and the measurements that judge it."""

    _: KW_ONLY
    name: Annotated[
        str | None,
        Argument(
            "What to fit: a calibration <gpu>.<stack>, or engines, llamacpp, mlx or sources [default: the "
            "calibrations of all research stacks].",
            "NAME",
            place=True,
        ),
    ] = None
    from_microbench: Annotated[
        Path | None,
        Argument(
            "Fit to the kernels in this record, or in the newest record of a folder or machine.", "RECORD"
        ),
    ] = None
    further: Annotated[
        tuple[str, ...] | None,
        Argument(
            "Additional record, for kernels that the first record lacks; may be repeated. A table written "
            "by benchmarks/attention.py is also accepted.",
            "RECORD",
            needs=("from_microbench",),
            why="since other fits read published rows",
        ),
    ] = None
    hardware: Annotated[
        str | None,
        Argument(
            "Device: a name or a YAML file. If the YAML file of a CPU does not exist, the command creates "
            "it.",
            "NAME|PATH",
            default="the record's",
        ),
    ] = None
    stack: Annotated[
        Path | None,
        Argument(
            "Record of whole passes, to which stack factors are fitted; a fit to half of the passes is "
            "tested on the other half.",
            "RECORD",
        ),
    ] = None
    results: Annotated[
        Path | None,
        Argument(
            "Folder with the records of a machine.",
            "FOLDER",
            default=SHOWN_FOLDER,
            group="Run",
            needs=("from_microbench",),
            why="since other fits read published rows",
        ),
    ] = None


@takes(CalibrateQuestion)
def calibrate(question: CalibrateQuestion, write: Write = False, json: Json = False, out: Out = None) -> None:
    """Fit a calibration's constants to measurements, judge the fit on held-out rows, and write the file."""
    name = question.name
    if question.from_microbench is not None:
        if write or json:
            raise InputError("--from-microbench: takes only NAME, --further, --hardware, --stack, --out")
        return _from_microbench(question, question.from_microbench, out)
    if name in STUDIES:
        if json:
            raise InputError(f"{name}: takes only --write; the held-out groups are fixed (docs/accuracy.md)")
        return _study(name, write)
    from perfmodel.validate.fit import calibrate as module

    recipes = [recipe_of(name)] if name else list(RECIPES.values())
    reports = [module.as_dict(module.report(one)) for one in recipes]
    if write:
        today = datetime.date.today()
        write_all({module.path_of(one.name): module.refreshed(one, today) for one in recipes}, "--write")
    if json:
        return print_json({"schema_version": 2, "rows": reports})
    for report in reports:
        click.echo("\n".join(module.report_lines(report)))


def _study(name: str, write: bool) -> None:
    """Fits the costs of engines, of llama.cpp or of MLX, or the errors of sources, with all folds. This takes
    minutes.
    """
    need_studies(f"calibrate {name}")
    if write:
        destination(BUNDLED / f"{name}.json", flag="--write")  # raises InputError before the long work
    texts = import_module(f"perfmodel.validate.studies.{name}").refitted_files(datetime.date.today())
    if write:
        write_all(texts, "--write")
    else:
        click.echo(next(iter(texts.values())), nl=False)


def _from_microbench(q: CalibrateQuestion, kernels: Path, out: Path | None) -> None:
    """Prints or writes a calibration that is fitted to kernels alone. With --stack, it is scaled to whole
    passes.

    For a CPU, --hardware NAME.yaml of a new device file also writes that file from the record.
    """
    from perfmodel.validate.harness.micro.host import host_spec
    from perfmodel.validate.harness.micro.write import as_yaml, destination_of, write_yaml

    if out is not None:
        destination_of(out)
    record = newest(kernels, "microbench", "--from-microbench", q.results or RESULTS)
    hardware = q.hardware
    if hardware is not None and hardware.endswith(".yaml") and not Path(hardware).exists():
        spec = host_spec(record, Path(hardware).stem)
        click.echo(f"wrote {write_yaml(spec, Path(hardware), f'Measured: {record.name}')}", err=True)
    click.echo(quiet_line(record), err=True)
    fitted, comment = _fitted(q, record)
    if out is None:
        click.echo(as_yaml(fitted, comment), nl=False)
    else:
        click.echo(f"wrote {write_yaml(fitted, out, comment)}")


class _Fitted(NamedTuple):
    """A calibration, and the comment of its file, which has the command that made it."""

    calibration: Calibration
    comment: str


def _fitted(q: CalibrateQuestion, record: Record) -> _Fitted:
    """The calibration that is fitted to a record of kernels, and then to the further records of the
    question.
    """
    from perfmodel.validate.fit.stack import with_stack
    from perfmodel.validate.harness.micro.fit import calibration_from
    from perfmodel.validate.harness.micro.further import with_further

    command = f"perfmodel validate calibrate --from-microbench results/{record.name}.json"
    gpu = load_gpu(q.hardware or record.hardware)
    fitted = calibration_from(record, gpu, q.name)
    click.echo(fitted.notes, err=True)
    if q.further:
        fitted = with_further(fitted, gpu, record.data.plan.precisions(), map(Path, q.further))
        command = " ".join([command, *(f"--further {path}" for path in q.further)])
    if q.stack is None:
        return _Fitted(fitted, f"From kernels alone: {command}")
    whole = newest(q.stack, "measure", "--stack", q.results or RESULTS)
    with about_file(whole.path):
        measured = tuple(replace(p, hardware=q.hardware or p.hardware) for p in points(whole))
        fitted = with_stack(measured, fitted, q.name or f"{fitted.gpu}.stack", str(whole.path))
    return _Fitted(fitted, f"From kernels and whole passes: {command} --stack results/{whole.name}.json")
