"""``perfmodel validate compare``: measurements and predictions side by side."""

from dataclasses import asdict
from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.answers.text import seconds
from perfmodel.cli.commands import Json, flagged
from perfmodel.cli.output import Column, print_json, say, table
from perfmodel.errors import unknown_name
from perfmodel.validate.accuracy import compare as comparison, partitions as parts
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.sets import gated_sets, named_sets
from perfmodel.validate.cli.arguments import HeldOut, Picture, ResultsFolder, Sets, Theme
from perfmodel.validate.records import RESULTS
from perfmodel.writing import destination

PLACE = ("row", "hardware", "target", "draft", "batch", "context", "quantity")
"""Fields of a cell that say where a figure was measured."""
FIGURE_WORDS = {
    "target_s": "baseline step",
    "draft_s": "draft step",
    "verify_s": "verification",
    "overhead_s": "overhead",
    "sd_tpot_s": "time per token",
    "speedup": "speedup",
}
"""Quantity of a cell -> its printed words."""
LARGEST = 8
"""Number of rows in the table of the largest errors."""
NOTES = ("in-sample: a fitted row was part of its fit", "held out: each row predicted by a fit without it")
"""The note in a picture of shipped predictions, and the note in a picture of held-out predictions."""


@flagged
def compare(
    sets: Sets = None,
    held_out: HeldOut = False,
    calibration: Annotated[
        str | None,
        Argument("Calibration for every row.", "NAME|PATH", default="each row's own", group="Engine"),
    ] = None,
    row: Annotated[str | None, Argument("Show only the row with this id, such as 3c-13.", "ID")] = None,
    plot: Picture = None,
    theme: Theme = "light",
    json: Json = False,
    results: ResultsFolder = None,
) -> None:
    """List published measurements and your own measurements, with predictions."""
    if plot:
        destination(plot, ".png", ".svg", flag="--plot")
    where = results or RESULTS
    chosen = named_sets(sets, where) if sets else gated_sets(where)
    cells = comparison.compare(chosen, "held-out" if held_out else "shipped", calibration, where)
    if row is not None:
        known = dict.fromkeys(c.point.row_id for c in cells)
        if row not in known:
            raise unknown_name("--row", "row", row, known)
        cells = [c for c in cells if c.point.row_id == row]
    if plot:
        from perfmodel import plots

        with plots.style(theme):
            plots.save(plots.residuals(cells, note=NOTES[held_out]), plot)
    if json:
        rows = [c.as_dict() for c in cells]
        partitions = {}
        for name, of_partition in parts.partitions(cells).items():
            partitions[name] = asdict(parts.error(of_partition))
        return print_json({"schema_version": 2, "rows": rows, "partitions": partitions})
    if row is not None:
        _show_row(cells, held_out)
    else:
        show_cells(cells)


def _show_row(cells: list[Cell], held_out: bool) -> None:
    """Prints the figures of one row, measured and predicted."""
    p = cells[0].point
    used = cells[0].calibration
    calibration = used
    if cells[0].fitted:
        calibration = f"{used}, which was fitted to this row"
        if held_out:
            calibration = f"a fit of {used} without this row"
    load = f"batch {p.batch}, context {p.context}, gamma {p.drafted}"
    click.echo(f"{p.target} on {p.tp} x {p.hardware}; draft: {p.draft or '-'} {p.read}; {load}")
    click.echo(f"predicted by {calibration}")
    click.echo(f"measured by {p.source}, row {p.row_id}")
    rows = []
    for c in cells:
        if c.quantity in FIGURE_WORDS:
            error = f"{100 * c.error:+.1f}%"
            rows.append([FIGURE_WORDS[c.quantity], _value(c, c.measured), _value(c, c.predicted), error])
    table(["", "measured", "predicted", "error"], rows)


def _value(c: Cell, value: float) -> str:
    if c.quantity.endswith("_s"):
        return seconds(value)
    return f"{value:.2f}x"


def show_cells(cells: list[Cell]) -> None:
    """Prints the errors by partition, the correct verdicts, the figures below their lower bound, and the
    largest errors.
    """
    rows = []
    for name, of_partition in parts.partitions(cells, ("",)).items():
        e = parts.error(of_partition)
        percents = [f"{100 * e.mape:.2f}", f"{100 * e.bias:+.2f}", f"{100 * e.worst:+.1f}"]
        rows.append([name, f"{e.rows}", *percents])
    table(["partition", "rows", "mean %", "bias %", "worst %"], rows)
    correct, speedups = parts.correct_verdicts(cells)
    if speedups:
        click.echo(f"correct verdict (speedup above or below 1): {correct} of {speedups}")
    broken = [c for c in cells if c.below_bound]
    could_be = sum(c.binding for c in cells)
    say(f"measured below the physical lower bound: {len(broken)} of {could_be} that could be")
    for c in broken:
        click.echo(f"  {c.name}: {c.measured:.6g} < {c.lower:.6g}")
    click.echo("\nlargest errors")
    words = ("row", "device", "target", "draft")
    counts = ("batch", "context")
    heads = (*words, *counts, "figure", "measured", "predicted", "error %")
    columns = [Column(head, left=head in (*words, "figure")) for head in heads]
    by_error = sorted(cells, key=lambda c: -abs(c.error))
    table(columns, [_row(c) for c in by_error[:LARGEST]])


def _row(c: Cell) -> list[str]:
    fields = c.as_dict()
    place = [str(fields[key]) for key in PLACE]
    return [*place, f"{c.measured:.5g}", f"{c.predicted:.5g}", f"{100 * c.error:+.1f}"]
