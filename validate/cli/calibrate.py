"""``perfmodel validate calibrate``: fit a calibration to published rows or to kernels, and judge it."""

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from perfmodel.errors import InputError
from perfmodel.validate.fit.recipes import RECIPES, recipe_of
from perfmodel.validate.records.store import RESULTS
from perfmodel.writing import Content, write_all


def calibrate(
    name: Annotated[
        str | None, typer.Argument(help="Fitted calibration, <gpu>.<stack> [all of research stacks], or engines.")
    ] = None,
    fit: Annotated[list[str] | None, typer.Option(help="Fit only rows with FIELD=VALUE; repeatable.")] = None,
    hold_out: Annotated[list[str] | None, typer.Option(help="Judge on rows with FIELD=VALUE, fit the others.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write hardware/calibrations/<gpu>.<stack>.yaml.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    from_microbench: Annotated[
        Path | None, typer.Option(help="Fit to the kernels of this record (of a folder or machine: its newest).")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="Of --from-microbench: device; a new NAME.yaml is written for a CPU.")
    ] = None,
    statistic: Annotated[str, typer.Option(help="Of --from-microbench: median or best sample of a kernel.")] = "median",
    passes: Annotated[
        Path | None, typer.Option("--judge", help="Of --from-microbench: record of whole passes to judge it on.")
    ] = None,
    stack: Annotated[
        Path | None,
        typer.Option(help="Of --from-microbench: record of whole passes to scale it to, judged by halves."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="Of --from-microbench: file to write [stdout].")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Of --from-microbench: where a machine named instead of a path has its records.")
    ] = None,
) -> None:
    """Fit a calibration's constants to measurements, judge the fit on held-out rows, and write the file."""
    if from_microbench is not None:
        if write or as_json or fit or hold_out:
            raise InputError("--from-microbench: takes only NAME, --hardware, --statistic, --judge, --stack, --out")
        if passes is not None and stack is not None:
            raise InputError("--judge, --stack: must not both be given; --stack judges itself, by halves")
        return _from_microbench(from_microbench, hardware, name, statistic, passes, stack, out, results or RESULTS)
    if results is not None:
        raise InputError("--results: is of --from-microbench; fits to published rows read none")
    if name == "engines":
        if fit or hold_out or as_json:
            raise InputError("engines: takes only --write; what is held out is fixed (docs/accuracy.md)")
        return _engines(write)
    from perfmodel.validate.fit import calibrate as module
    from perfmodel.validate.fit.split import judge, report_lines, split_report

    recipes = [recipe_of(name, "NAME")] if name else list(RECIPES.values())
    if write and (fit or hold_out):
        raise InputError("--write: must not be given with --fit or --hold-out: what ships is fitted to all rows")
    reports: list[Any] = []
    files: dict[Path, Content] = {}
    for recipe in recipes:
        if fit or hold_out:
            reports.append(judge(recipe, tuple(fit or ()), tuple(hold_out or ())))
            continue
        reports.append(split_report(module.report(recipe)))
        if write:
            files[module.path_of(recipe.name)] = module.refreshed(recipe, datetime.date.today())
    if write:
        for path in sorted(module.path_of("x").parent.glob("*.literature.yaml")):
            files[path] = module.with_literature_error(path.stem)
        write_all(files, "--write")
    if as_json:
        typer.echo(json.dumps({"schema_version": 2, "rows": reports}, indent=1))
        return
    for found in reports:
        typer.echo("\n".join(report_lines(found)))


def _engines(write: bool) -> None:
    """Fit what serving engines cost beyond their kernels; minutes, as all folds and ablations are fitted too."""
    from perfmodel.validate.cli.accuracy import need_studies

    need_studies("calibrate engines")
    from perfmodel.validate.studies import engines as engine_make
    from perfmodel.validate.studies.ablations import ablations
    from perfmodel.validate.studies.engines_file import path as place

    typer.echo("fitting steps and iterations, whole and without each fold ...", err=True)
    made = engine_make.make()
    found: dict[str, Any] = {}
    for title, errors in ablations(made.steps.values):
        found[title] = errors
        typer.echo(f"{title}: " + ", ".join(f"{by} {100 * error:.1f} %" for by, error in errors.items()), err=True)
    constants, record = engine_make.texts(made, found, datetime.date.today())
    if write:
        write_all({place(): constants, engine_make.path(): record})
    else:
        typer.echo(constants, nl=False)


def _from_microbench(
    path: Path,
    hardware: str | None,
    name: str | None,
    statistic: str,
    judge: Path | None,
    stack: Path | None,
    out: Path | None,
    results: Path,
) -> None:
    """Print or write the calibration that kernels alone give, judged on whole passes or scaled to them.

    For a CPU without a device file, `hardware` NAME.yaml that does not exist yet is written from the record too.
    """
    from perfmodel.specs.gpu import load_gpu
    from perfmodel.validate.accuracy.compare import compare_record, stated_error
    from perfmodel.validate.fit.stack import with_stack
    from perfmodel.validate.harness.micro.fit import calibration_from
    from perfmodel.validate.harness.micro.host import host_spec
    from perfmodel.validate.harness.micro.write import as_yaml, destination_of, write_yaml
    from perfmodel.validate.records.store import newest
    from perfmodel.validate.records.summary import points, quiet_line

    if statistic not in ("median", "best"):
        raise InputError(f"--statistic: must be median or best, given {statistic!r}")
    if out is not None:
        destination_of(out)
    record = newest(path, "microbench", "--from-microbench", results)
    if hardware is not None and hardware.endswith(".yaml") and not Path(hardware).exists():
        spec = host_spec(record, Path(hardware).stem)
        typer.echo(f"wrote {write_yaml(spec, Path(hardware), f'Measured: {record.name}')}", err=True)
    typer.echo(quiet_line(record), err=True)
    made = f"perfmodel validate calibrate --from-microbench results/{record.name}.json"
    comment = f"From kernels alone: {made}"
    gpu = load_gpu(hardware or record.hardware)
    fitted = calibration_from(record, gpu, name, statistic)  # type: ignore[arg-type]
    typer.echo(fitted.notes, err=True)
    if judge is not None:
        whole = newest(judge, "measure", "--judge", results)
        if whole.name in fitted.fitted_on:
            raise InputError(f"--judge: {whole.path} must not be what the calibration was fitted on")
        cells = compare_record(whole, fitted, hardware or record.hardware)
        fitted = fitted.model_copy(update={"observed_error": stated_error(whole, cells)})
    if stack is not None:
        whole = newest(stack, "measure", "--stack", results)
        measured = tuple(replace(p, hardware=hardware or p.hardware) for p in points(whole))
        fitted = with_stack(measured, fitted, name or f"{fitted.gpu}.stack")
        comment = f"From kernels and whole passes: {made} --stack results/{whole.name}.json"
    if out is None:
        typer.echo(as_yaml(fitted, comment), nl=False)
    else:
        typer.echo(f"wrote {write_yaml(fitted, out, comment)}")
