"""Makes the Markdown page that ``perfmodel validate report`` writes: the measurements of a machine next to
their predictions.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from perfmodel.errors import InputError
from perfmodel.specs import Calibration
from perfmodel.speculation import inflection_context
from perfmodel.validate.accuracy.cells import LABELS, Cell, file_label
from perfmodel.validate.accuracy.compare import calibration_of, compare_record
from perfmodel.validate.accuracy.inflections import chain_of, inflections
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.accuracy.partitions import error
from perfmodel.validate.fit.counted_points import scenario_of
from perfmodel.validate.fit.errors import Errors
from perfmodel.validate.fit.folds import FOLDS
from perfmodel.validate.fit.stack import fit_stack
from perfmodel.validate.records import Record, points, quiet_line, records, withdrawn
from perfmodel.validate.solving import grouped

FIGURES = tuple(name for name in LABELS if name != "speedup_alpha")
"""The quantities in the tables."""
ERROR_HEAD = ["figure", "mean error", "worst", "bias", "points"]
MIN_HALVES = 8
"""Smallest number of different baseline passes with which stack factors are fitted to halves of a record."""
TOLERANCE = 0.03
"""Relative decrease of the speedup with the batch that is ignored. Repeated runs differ by about this
much.
"""


def text(machine: str, results: Path, hardware: str | None = None, calibration: str | None = None) -> str:
    """The Markdown page. Raises InputError for a machine without records.

    - results: the folder of the records.
    - hardware: the device of the predictions; by default that of each record.
    - calibration: the calibration for all records; by default each record has its own.
    """
    lines = [
        f"# {machine}: predicted and measured",
        "",
        f"Written by `perfmodel validate report {machine}`.",
        "",
    ]
    for record in measurements(machine, results):
        lines += _section(record, hardware, calibration_of(record, hardware, calibration))
    lines += _withdrawn(machine, results)
    return "\n".join(lines).rstrip() + "\n"


def measurements(machine: str, results: Path) -> list[Record]:
    """The records of a machine with times of passes and iterations. Raises InputError if there are none."""
    measured = [record for record in records(results, machine) if record.data.kind == "measure"]
    if not measured:
        raise InputError(f"machine: must have a measurement in {results.name}/, given {machine!r}")
    return measured


class TextTable(NamedTuple):
    """The header and the rows of a table, as text."""

    head: list[str]
    rows: list[list[str]]


def point_table(cells: Sequence[Cell], figures: Sequence[str] = FIGURES) -> TextTable:
    """A table with a row per point, which has the predicted value, the measured value and the error of each
    figure.
    """
    shown = [name for name in figures if any(c.quantity == name for c in cells)]
    rows = []
    for row_cells in grouped(cells, lambda c: c.point.row_id).values():
        p = row_cells[0].point
        pair = _pair(p.target, p.draft or "", p.read)
        text_of = {c.quantity: _figure(c) for c in row_cells}
        texts = [text_of.get(name, "–") for name in shown]
        rows.append([pair, f"{p.batch}", f"{p.asked_context}", p.drafted, *texts])
    return TextTable(["pair", "B", "S", "γ", *map(_heading, shown)], rows)


def _heading(quantity: str) -> str:
    unit = ", ms" if quantity.endswith("_s") else ""
    return LABELS[quantity] + unit


def error_table(cells: Sequence[Cell], figures: Sequence[str] = FIGURES) -> TextTable:
    """A table with a row per figure, which has the mean, the worst and the signed mean of its relative
    errors. Figures that are predicted to be 0 have no row.
    """
    priced = [c for c in cells if c.predicted > 0]
    by_quantity = grouped(priced, lambda c: c.quantity)
    rows = [_error_row(name, error(by_quantity[name])) for name in figures if name in by_quantity]
    return TextTable(ERROR_HEAD, rows)


def _error_row(name: str, e: Errors) -> list[str]:
    return [LABELS[name], f"{e.mape:.1%}", f"{e.worst:+.1%}", f"{e.bias:+.1%}", f"{e.rows}"]


def _figure(c: Cell) -> str:
    scale = 1e3 if c.quantity.endswith("_s") else 1.0
    return f"{scale * c.predicted:.2f} / {scale * c.measured:.2f} / {c.error:+.0%}"


def _section(record: Record, hardware: str | None, calibration: Calibration) -> list[str]:
    cells = compare_record(record, calibration, hardware)
    speedups = [c for c in cells if c.point.gamma is not None and c.quantity == "speedup"]
    lines = [f"## {record.data.plan.title}", ""]
    lines += [_measured_on(record), ""]
    lines += [_predicted_with(record, hardware, calibration), ""]
    lines += _subsection("Errors", table(*error_table(cells)))
    lines += _bounds(cells)
    lines += [f"{quiet_line(record)}.", ""]
    lines += _scaled(record, hardware or record.hardware, calibration)
    lines += _subsection("Every point (predicted / measured / error)", table(*point_table(cells)))
    lines += _inflections(speedups, calibration)
    lines += _failures(record)
    return lines


def _measured_on(record: Record) -> str:
    """A sentence about the origin of a record: plan, commit, device and protocol."""
    data = record.data
    environment = data.environment
    protocol = data.protocol
    commit = data.commit[:8] + (" (dirty)" if data.dirty else "")
    torch_version = environment.libraries.get("torch", "?")
    source = f"Record `{record.path.name}`, plan `{data.plan.name}`, commit {commit}"
    device = f"{environment.device.name}, {environment.threads} threads, torch {torch_version}"
    timing = f"timer {protocol.timer}, {protocol.samples} samples of {protocol.iterations} iterations"
    inputs = "weights random, cache filled with random values, acceptance scripted"
    return f"{source}; {device}, {timing}; {inputs}."


def _predicted_with(record: Record, hardware: str | None, calibration: Calibration) -> str:
    """Sentences about the device and the calibration of the predictions, and whether the calibration was
    fitted to the record.
    """
    fitted_on = ", ".join(calibration.fitted_on) or "nothing"
    predicted = (
        f"Predicted for `{hardware or record.data.hardware}` with calibration `{calibration.name}` "
        f"({calibration.kind}; fitted on {fitted_on})."
    )
    if record.name in calibration.fitted_on:
        return f"{predicted} **It was fitted on this very set.**"
    return f"{predicted} No time of this set was used to fit it."


def _subsection(title: str, lines: Sequence[str], words: str = "") -> list[str]:
    introduction = [words, ""] if words else []
    return [f"### {title}", "", *introduction, *lines, ""]


def below_bounds(cells: Sequence[Cell]) -> list[str]:
    """A line for each time below its physical lower bound. It says if the last-level cache can explain
    this.
    """
    lines = []
    for c in cells:
        if c.lower is None or not c.measured < c.lower:
            continue
        measured = f"{LABELS[c.quantity]} {1e3 * c.measured:.3g} ms"
        line = f"{c.point.row_id}: {measured} is below its bound, {1e3 * c.lower:.3g} ms"
        if not c.binding:
            line += " (its working set fits the last-level cache)"
        lines.append(line)
    return lines


def _bounds(cells: Sequence[Cell]) -> list[str]:
    bounded = [c for c in cells if c.lower is not None]
    binding = sum(c.binding for c in bounded)
    faults = below_bounds(cells)
    lines = [
        f"{len(faults)} of {len(bounded)} measured times are below their physical lower bound; it holds for "
        f"the {binding} whose working set exceeds the last-level cache.",
        "",
    ]
    if faults:
        lines += [f"- {fault}" for fault in faults]
        lines.append("")
    return lines


def _scaled(record: Record, hardware: str, calibration: Calibration) -> list[str]:
    """The errors of the calibration if stack factors scale it to whole passes (`fit_stack`)."""
    measured = tuple(replace(p, hardware=hardware) for p in points(record) if p.overhead_s)
    baseline_passes = {FOLDS["point"](p) for p in measured}
    if record.name in calibration.fitted_on or len(baseline_passes) < MIN_HALVES:
        return []
    stack = fit_stack(measured, calibration)
    factors = ", ".join(f"{kind} {factor:.2f}" for kind, factor in stack.factors.items())
    words = (
        "Four stack factors fitted on one half of the points (no baseline pass on both sides) and judged "
        f"on the other, both ways. On all points they are: {factors}."
    )
    rows = [_error_row(name, errors) for name, errors in stack.held_out.items()]
    return _subsection("Scaled to whole passes", table(ERROR_HEAD, rows), words)


def _inflections(speedups: Sequence[Cell], calibration: Calibration) -> list[str]:
    by_chain = inflections(speedups, TOLERANCE)
    if not by_chain:
        return []
    rows = []
    chains = grouped(speedups, chain_of)
    for chain, on_grid in by_chain.items():
        *pair, gamma = chain
        batches = [c.point.batch for c in chains[chain]]
        low = min(batches)
        high = max(batches)
        scenario = scenario_of(chains[chain][0].point, calibration)
        exact = inflection_context(scenario, gamma, (float(low), float(high)), TOLERANCE)
        contexts = ["none" if value is None else f"{value:,.0f}" for value in (*on_grid, exact)]
        rows.append([_pair(*pair), str(gamma), f"{low}..{high}", *contexts])
    words = (
        f"Smallest context from which on speedup does not fall (by more than {TOLERANCE:.0%}) as the batch "
        "grows: on the measured grid, measured and predicted, and the engine's own, between grid points."
    )
    header = ["pair", "γ", "batches", "measured", "predicted, same grid", "predicted"]
    return _subsection("S_inflection", table(header, rows), words)


def _pair(target: str, draft: str, kv: str) -> str:
    return f"{file_label(target)} {file_label(draft)} {kv}"


def _failures(record: Record) -> list[str]:
    lines = [f"- {row.key}: {row.status}: {row.error}" for row in record.failures()]
    return _subsection("Rows without a time", lines) if lines else []


def _withdrawn(machine: str, results: Path) -> list[str]:
    lines = []
    for name, reason in withdrawn(results).items():
        if name.startswith(f"{machine}/"):
            lines.append(f"- {name}: {reason}")
    return ["## Withdrawn", "", *lines, ""] if lines else []
