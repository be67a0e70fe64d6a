"""``perfmodel validate compare | calibrate | accuracy | history``: predictions against published measurements."""

import datetime
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from perfmodel.errors import InputError, unknown_name
from perfmodel.validate.fit.recipes import RECIPES, recipe_of

EXIT_RED = 1


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    for verb in (compare, calibrate, accuracy, history):
        app.command()(verb)


def compare(
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Published set; repeatable [all sets of times].")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Predict fitted rows by refits without their fold.")
    ] = False,
    calibration: Annotated[str | None, typer.Option(help="Use this one for every row.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="Also cut by model, draft, kv or context; repeatable.")] = None,
    worst: Annotated[int, typer.Option(help="Rows with the largest errors to show.", min=0)] = 8,
    plot: Annotated[Path | None, typer.Option(help="Write a scatter and residual plot here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every figure as JSON.")] = False,
) -> None:
    """Published measurements beside what the model predicts for them."""
    from perfmodel.validate.accuracy import compare as module

    known = (*module.SETS, *module.own_sets())
    for name in sets or ():
        if name not in known:
            raise unknown_name("--set", "set of times", name, known)
    for name in by or ():
        if name not in module.PARTITIONS or not name:
            raise unknown_name("--by", "way to cut", name, [p for p in module.PARTITIONS if p])
    cells = module.compare(sets or module.gated_sets(), "held-out" if held_out else "shipped", calibration)
    if plot:
        from perfmodel.validate.accuracy.scatter import draw

        draw(cells, plot)
    if as_json:
        _print_compare_json(cells)
        return
    _print_compare(cells, ("", *(by or ())), worst)


def _print_compare_json(cells: list[Any]) -> None:
    from perfmodel.validate.accuracy import compare as module

    cut = {name: asdict(module.error(part)) for name, part in module.partitions(cells).items()}
    typer.echo(json.dumps({"schema_version": 1, "cells": [c.as_dict() for c in cells], "partitions": cut}, indent=1))


def _print_compare(cells: list[Any], by: tuple[str, ...], worst: int) -> None:
    from perfmodel.validate.accuracy import compare as module

    typer.echo(f"{'partition':58} {'rows':>5} {'mean %':>8} {'bias %':>8} {'worst %':>8}")
    for name, part in module.partitions(cells, by).items():
        e = module.error(part)
        typer.echo(f"{name:58} {e.rows:5d} {100 * e.mape:8.2f} {100 * e.bias:+8.2f} {100 * e.worst:+8.1f}")
    right, of = module.right_side(cells)
    if of:
        typer.echo(f"\nside of 1.0 right: {right} of {of}")
    broken = [c for c in cells if c.below_bound]
    typer.echo(
        f"measured below the physical lower bound: {len(broken)} of {sum(c.binding for c in cells)} that could be"
    )
    for c in broken:
        typer.echo(f"  {c.set_name}/{c.row} {c.quantity}: {c.measured:.6g} < {c.lower:.6g}")
    if worst:
        typer.echo("\nlargest errors")
        for c in module.worst(cells, worst):
            typer.echo(
                f"  {c.row:12} {c.hardware:15} {c.target:15} {c.draft:14} B={c.batch:<4d} S={c.context:<6d} "
                f"{c.quantity:13} measured {c.measured:.5g} predicted {c.predicted:.5g} ({100 * c.error:+.1f} %)"
            )


def calibrate(
    name: Annotated[str | None, typer.Argument(help="Fitted calibration, <gpu>.<stack> [all].")] = None,
    fit: Annotated[list[str] | None, typer.Option(help="Fit only rows with FIELD=VALUE; repeatable.")] = None,
    hold_out: Annotated[list[str] | None, typer.Option(help="Judge on rows with FIELD=VALUE, fit the others.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write hardware/calibrations/<gpu>.<stack>.yaml.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    from_microbench: Annotated[
        Path | None, typer.Option(help="Fit to the kernels of this record (of a folder: its newest) instead.")
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
        typer.Option(help="Of --from-microbench: record of whole passes to stretch it to, judged by halves."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Of --from-microbench: file to write [stdout].")] = None,
) -> None:
    """Fit a calibration's constants to measurements, judge the fit on rows left out, and write the file."""
    if from_microbench is not None:
        if write or as_json or fit or hold_out:
            raise InputError("--from-microbench: takes only NAME, --hardware, --statistic, --judge, --stack, --out")
        if passes is not None and stack is not None:
            raise InputError("--judge, --stack: must not both be given; --stack judges itself, by halves")
        return _from_microbench(from_microbench, hardware, name, statistic, passes, stack, out)
    from perfmodel.validate.fit import calibrate as module
    from perfmodel.validate.fit.split import judge, report_lines, split_report

    recipes = [recipe_of(name, "NAME")] if name else list(RECIPES.values())
    if write and (fit or hold_out):
        raise InputError(
            "--write: must be left out with --fit and --hold-out: shipped calibrations are fitted to all rows"
        )
    reports: list[Any] = []
    for recipe in recipes:
        if fit or hold_out:
            reports.append(judge(recipe, tuple(fit or ()), tuple(hold_out or ())))
            continue
        reports.append(split_report(module.report(recipe)))
        if write:
            text = module.refreshed(recipe, datetime.date.today())
            module.path_of(recipe.name).write_text(text, encoding="utf-8")
    if write:
        for path in sorted(module.path_of("x").parent.glob("*.literature.yaml")):
            path.write_text(module.with_literature_error(path.stem), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(reports, indent=1))
        return
    for found in reports:
        typer.echo("\n".join(report_lines(found)))


def accuracy(
    write: Annotated[
        bool, typer.Option("--write", help="Renew the record, its page, golden grid and history.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The record as it is now.")] = False,
) -> None:
    """The gate: replay every published set and compare with results/accuracy.json; exit status 1 where it is red."""
    from perfmodel.validate.accuracy import gate, golden
    from perfmodel.validate.accuracy import history as trend
    from perfmodel.validate.accuracy import page as accuracy_page
    from perfmodel.validate.accuracy import record as module

    found = module.record()
    if write:
        module.path().write_text(module.render(found), encoding="utf-8")
        golden.path().write_text(golden.render(golden.grid()), encoding="utf-8")
        today = datetime.datetime.now(datetime.UTC).date()
        trend.append(trend.path(), trend.lines_of(found, trend.commit(), str(today)))
        if accuracy_page.path().parent.is_dir():
            accuracy_page.path().write_text(accuracy_page.render(gate.read(module.path())), encoding="utf-8")
    if as_json:
        typer.echo(module.render(found), nl=False)
    faults = gate.faults(gate.read(module.path()), found)
    moved = golden.drift(golden.read(golden.path()), golden.grid())
    if moved:
        faults += [f"golden: {len(moved)} predictions moved; `perfmodel validate accuracy --write` renews them"]
        faults += [f"  {line}" for line in moved[:5]]
    overall = found["replays"]["held-out"]["overall"]
    for line in faults:
        typer.echo(line, err=True)
    if not as_json:
        mean = f"{100 * overall['mape']:.2f} % over {overall['rows']} figures left out of the fit"
        typer.echo(f"accuracy: {'RED' if faults else 'green'}; mean error {mean}")
    if faults:
        raise typer.Exit(EXIT_RED)


def history(
    plot: Annotated[Path | None, typer.Option(help="Draw the trend here (PNG).")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Append the summary to this file instead of printing it.")
    ] = None,
) -> None:
    """How accuracy moved from record to record: a Markdown summary, and a picture."""
    from perfmodel.validate.accuracy import history as module

    lines = module.read(module.path())
    if not lines:
        raise InputError(f"{module.path()}: must exist; write it with `perfmodel validate accuracy --write`")
    if plot:
        module.plot(lines, plot)
    if markdown:
        with markdown.open("a", encoding="utf-8") as stream:
            stream.write(module.summary(lines))
    else:
        typer.echo(module.summary(lines), nl=False)


def _from_microbench(
    record: Path,
    hardware: str | None = None,
    name: str | None = None,
    statistic: str = "median",
    judge: Path | None = None,
    stack: Path | None = None,
    out: Path | None = None,
) -> None:
    """What ``calibrate --from-microbench RECORD`` does: print or write the calibration that kernels alone give.

    For a CPU without a device file, `hardware` NAME.yaml that does not exist yet is written from the record too.
    judge: a record of whole passes, not used to fit, whose errors the calibration is to state. stack: one that the
    calibration is stretched to (`perfmodel.validate.fit.stack`).
    """
    from perfmodel.validate.accuracy.beside import bench_of, observed
    from perfmodel.validate.fit.stack import with_stack
    from perfmodel.validate.harness.estimate import Bench
    from perfmodel.validate.harness.micro.write import as_yaml, calibrate_from_microbench, device_from, write_yaml
    from perfmodel.validate.records.record import newest, read_record
    from perfmodel.validate.records.summary import points, quiet_line

    if statistic not in ("median", "best"):
        raise InputError(f"--statistic: must be median or best, given {statistic!r}")
    record = newest(record, "microbench", "--from-microbench")
    if hardware is not None and hardware.endswith(".yaml") and not Path(hardware).exists():
        spec = device_from(record, Path(hardware).stem)
        typer.echo(f"wrote {write_yaml(spec, Path(hardware), f'Measured: {read_record(record).name}')}", err=True)
    typer.echo(quiet_line(read_record(record)), err=True)
    made = f"perfmodel validate calibrate --from-microbench results/{read_record(record).name}.json"
    comment = f"From kernels alone: {made}"
    fitted = calibrate_from_microbench(record, hardware, name, statistic)  # type: ignore[arg-type]
    typer.echo(fitted.notes, err=True)
    if judge is not None:
        whole = read_record(newest(judge, "measure", "--judge"))
        bench = bench_of(whole, hardware or read_record(record).data.hardware, "ideal")
        scatter = observed(whole, Bench(bench.gpu, fitted, bench.tensor_parallel, bench.precision))
        fitted = fitted.model_copy(update={"observed_error": scatter})
    if stack is not None:
        whole = read_record(newest(stack, "measure", "--stack"))
        measured = tuple(replace(p, hardware=hardware or p.hardware) for p in points(whole))
        fitted = with_stack(measured, fitted, name or f"{fitted.gpu}.stack")
        comment = f"From kernels and whole passes: {made} --stack results/{whole.name}.json"
    if out is None:
        typer.echo(as_yaml(fitted, comment), nl=False)
    else:
        typer.echo(f"wrote {write_yaml(fitted, out, comment)}")
