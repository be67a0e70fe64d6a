"""``perfmodel validate check``: the gate for anyone's records, in anyone's repository."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import TINY, Argument
from perfmodel.cli.commands import Json, flagged
from perfmodel.cli.output import Column, print_json, table
from perfmodel.validate.accuracy import check as module
from perfmodel.validate.cli.arguments import SHOWN_FOLDER
from perfmodel.validate.records import RESULTS

SHARES = (TINY, 10.0)


@flagged
def check(
    results: Annotated[
        Path | None,
        Argument("Folder with records, at any depth.", "FOLDER", default=SHOWN_FOLDER, group="Run"),
    ] = None,
    max_error: Annotated[
        float | None,
        Argument(
            "Largest allowed mean error of each predicted quantity, such as 10%.",
            "SHARE",
            limits=SHARES,
            default="10% without --baseline",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        Argument("Fail if errors grew, predictions moved or measurements drifted since this file.", "FILE"),
    ] = None,
    max_drift: Annotated[
        float | None,
        Argument(
            "Largest allowed mean change of a figure's measurements since --baseline.",
            "SHARE",
            limits=SHARES,
            default="3%",
        ),
    ] = None,
    write: Annotated[bool, Argument("Write the current state to --baseline.", group="Output")] = False,
    calibration: Annotated[
        str | None,
        Argument("Calibration for all records.", "NAME|PATH", default="each record's own", group="Engine"),
    ] = None,
    figure: Annotated[
        tuple[str, ...],
        Argument(
            "Check only this quantity, such as speedup or sd_tpot_s; repeatable.", "NAME", default="all"
        ),
    ] = (),
    json: Json = False,
) -> None:
    """Compare predictions with the records of a folder; exit status 1 if errors are too large, or if errors
    or measurements have changed since a baseline."""
    folder = results or RESULTS
    checked = module.check(
        folder,
        max_error=max_error,
        baseline=baseline,
        max_drift=max_drift or module.MAX_DRIFT,
        calibration=calibration,
        figure=figure,
        write=write,
    )
    now = checked.parts
    faults = checked.faults
    limit = checked.limit
    before = checked.before
    all_figures = [f for part in now for f in part.figures]
    if json:
        content = {
            "schema_version": 1,
            "parts": {part.name: asdict(part.errors) for part in now},
            "rows": [asdict(f) | {"error": f.error} for f in all_figures],
            "faults": faults,
            "doubts": checked.doubts,
        }
        print_json(content)
    else:
        _show(now, before)
        if write:
            click.echo(f"wrote {baseline}")
        count = sum(part.errors.rows for part in now)
        records = {f.record for f in all_figures}
        rule = "no limit" if limit is None else f"mean errors up to {limit:.1%}"
        if before is not None:
            rule += f", {100 * module.TOLERANCE:g} point above {baseline} at most"
        verdict = "FAIL" if faults else "PASS"
        click.echo(f"check: {verdict}; {count} figures of {len(records)} records in {folder}; {rule}")
    for line in (*faults, *(f"not to be relied on: {doubt}" for doubt in checked.doubts)):
        click.echo(line, err=True)
    if faults:
        if not (max_error or baseline):
            click.echo(
                "to keep errors that you know of from growing: --baseline FILE --write once, then "
                "--baseline FILE",
                err=True,
            )
        raise click.exceptions.Exit(1)


def _show(now: Sequence[module.CheckedPart], before: module.Baseline | None) -> None:
    head: list[str | Column] = ["machine/plan/figure", "rows", "mean error", "bias", "worst"]
    head.append(Column("calibration", left=True, spare=1))
    rows = []
    for part in now:
        e = part.errors
        errors = [f"{e.mape:.1%}", f"{e.bias:+.1%}", f"{e.worst:+.1%}"]
        rows.append([part.name, f"{e.rows}", *errors, part.calibration])
    if before:
        behind_mean = head.index("mean error") + 1
        head.insert(behind_mean, "before")
        for part, row in zip(now, rows, strict=True):
            old = before.parts.get(part.name)
            row.insert(behind_mean, f"{old.mape:.1%}" if old else "-")
    table(head, rows)
    if any(f.fitted for part in now for f in part.figures):
        click.echo("* fitted on these very records: their error says nothing of other points")
