"""The output of ``perfmodel validate check``: a table of errors, the verdict, faults and doubts."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.output import Column, table
from perfmodel.validate.accuracy.check import TOLERANCE, Baseline, Checked, CheckedPart

HINT = "to keep errors that you know of from growing: --baseline FILE --write once, then --baseline FILE"


def content(checked: Checked) -> dict[str, Any]:
    """The result of a check as a mapping for JSON."""
    rows = [asdict(figure) | {"error": figure.error} for part in checked.parts for figure in part.figures]
    return {
        "schema_version": 1,
        "parts": {part.name: asdict(part.errors) for part in checked.parts},
        "rows": rows,
        "faults": checked.faults,
        "doubts": checked.doubts,
    }


def show(checked: Checked) -> None:
    """Prints the error of each part, next to that of the baseline if there is one."""
    head: list[str | Column] = ["machine/plan/figure", "rows", "mean error"]
    if checked.before:
        head.append("before")
    head += ["bias", "worst", Column("calibration", left=True, spare=1)]
    table(head, [_row(part, checked.before) for part in checked.parts])
    if any(figure.fitted for part in checked.parts for figure in part.figures):
        click.echo("* fitted on these very records: their error says nothing of other points")


def _row(part: CheckedPart, before: Baseline | None) -> list[str]:
    """The cells of a part. Its earlier error is ``-`` if the baseline does not have the part."""
    errors = part.errors
    cells = [part.name, f"{errors.rows}", f"{errors.mape:.1%}"]
    if before:
        old = before.parts.get(part.name)
        cells.append(f"{old.mape:.1%}" if old else "-")
    return [*cells, f"{errors.bias:+.1%}", f"{errors.worst:+.1%}", part.calibration]


def summary(checked: Checked, folder: Path, baseline: Path | None) -> str:
    """The verdict, the number of figures and the rule that was applied."""
    verdict = "PASS" if checked.passes else "FAIL"
    count = sum(part.errors.rows for part in checked.parts)
    records = {figure.record for part in checked.parts for figure in part.figures}
    rule = "no limit" if checked.limit is None else f"mean errors up to {checked.limit:.1%}"
    if checked.before is not None:
        rule += f", {100 * TOLERANCE:g} point above {baseline} at most"
    return f"check: {verdict}; {count} figures of {len(records)} records in {folder}; {rule}"


def complaints(checked: Checked, has_rule: bool) -> Iterator[str]:
    """One line per fault and doubt. If the check failed without a limit or a baseline of the user's, a last
    line says how to accept known errors.
    """
    yield from checked.faults
    for doubt in checked.doubts:
        yield f"not to be relied on: {doubt}"
    if not checked.passes and not has_rule:
        yield HINT
