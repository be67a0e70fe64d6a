"""``python -m perfmodel.validate.studies.racks``: compares predictions for several nodes, racks and pools
with published measurements. Each row is predicted without its source.

- Data: the rows of `rack_rows`. The column ``left_out`` says why a row does not count.
- Model: two constants of engines on more than one node (`RackConstants`).
- Folds: whole sources. A row is predicted with constants that were fitted to the steps of all other sources.
- Result: ``results/racks.json``. The file has the errors, and the interval widths that contain nine of ten
  rows. The constants and widths in ``hardware/fitted/racks.yaml`` are copied from it by hand, which a test
  checks.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from perfmodel.specs import COVERAGE, Z
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import grouped, shortened
from perfmodel.validate.studies.rack_errors import RackError, speedup_error, step_error
from perfmodel.validate.studies.rack_fit import RackConstants, fit
from perfmodel.validate.studies.rack_pools import prefill_error, ratio_error, throughput_error
from perfmodel.validate.studies.rack_rows import RackRow, rows
from perfmodel.writing import write_all

PATH = BUNDLED / "racks.json"
RECORD_DIGITS = 4
"""Significant digits of the record."""
WITHOUT_INTERVAL = ("prefill", "ratio")
"""Figures for which no answer states an interval."""


class SourcesLeftOut(NamedTuple):
    """The errors of rows, and the constants of each fold.

    - errors: each row is predicted with constants that were fitted without its source.
    - constants: source -> the constants that were fitted without it.
    """

    errors: list[RackError]
    constants: dict[str, RackConstants]


def left_out() -> SourcesLeftOut:
    """Leaves out each source in turn, among the rows that count."""
    counted = [r for r in rows() if r.counts]
    constants = {}
    for source in dict.fromkeys(r.source_id for r in counted):
        constants[source] = fit([r for r in counted if r.source_id != source])
    errors: list[RackError] = []
    for row in counted:
        errors += _errors(row, constants[row.source_id])
    return SourcesLeftOut(errors, constants)


def _errors(row: RackRow, constants: RackConstants) -> Iterator[RackError]:
    """The error of each figure that a row states.

    - constants: the constants that were fitted without the row's source.
    """
    if row.kind == "step":
        yield step_error(row, constants)
    if row.kind == "prefill":
        yield prefill_error(row, constants)
    if row.prompts_by:
        yield ratio_error(row, constants)
    if row.has_pools:
        yield throughput_error(row)
    if row.baseline:
        yield speedup_error(row, constants)


def width(errors: Iterable[RackError], figure: str, without: str = "") -> float:
    """The half-width, in logarithms, of the intervals that contain nine of ten rows on more than one node.
    Each source has the same weight. The half-width does not include the errors of the link tables.

    - without: a source whose rows are not used.

    Raises ValueError if no row is left.
    """
    beyond_node = [error for error in errors if error.figure == figure and error.beyond_node]
    others = [error for error in beyond_node if error.source_id != without]
    rows_of = Counter(error.source_id for error in others)
    covered = 0.0
    for error in sorted(others, key=lambda error: error.unexplained):
        covered += 1.0 / (rows_of[error.source_id] * len(rows_of))
        if covered >= COVERAGE:
            return error.unexplained
    raise ValueError(f"{figure}: no row")


def figures() -> dict[str, Any]:
    """The record ``results/racks.json``."""
    errors, constants = left_out()
    lines = [_in_json(error, errors) for error in errors]
    summary = {}
    by_source = {}
    for figure in sorted({error.figure for error in errors}):
        of_figure = [line for line in lines if line["figure"] == figure]
        summary[figure] = _summary(of_figure)
        sources = grouped(of_figure, lambda line: line["source"])
        by_source[figure] = {source: _summary(of_source) for source, of_source in sources.items()}
    shipped = fit([r for r in rows() if r.counts])
    return {
        "constants": _constants_in_json(shipped),
        "folds": {source: _constants_in_json(of_fold) for source, of_fold in constants.items()},
        "widths": {figure: width(errors, figure) for figure in ("step", "speedup")},
        "summary": summary,
        "by_source": by_source,
        "rows": lines,
        "left_out": dict(Counter(r.left_out for r in rows() if r.left_out)),
    }


def _in_json(error: RackError, errors: Sequence[RackError]) -> dict[str, Any]:
    """A row of the record."""
    return {
        "row": error.row_id,
        "source": error.source_id,
        "figure": error.figure,
        "measured": error.measured,
        "predicted": error.predicted,
        "inside": _is_inside(error, errors),
    }


def _is_inside(error: RackError, errors: Sequence[RackError]) -> bool | None:
    """Whether the interval of `whatif` contains the measured value; None for a figure without an interval.

    The width combines the errors of sources that were left out with the errors of the link tables. For more
    than one node, the errors of other racks also count.
    """
    if error.figure in WITHOUT_INTERVAL:
        return None
    half_width = error.node_width
    if error.beyond_node:
        half_width = max(half_width, width(errors, error.figure, error.source_id))
    return abs(error.log_error) <= math.hypot(half_width, Z * error.links)


def _constants_in_json(constants: RackConstants) -> dict[str, Any]:
    return {"waiting": constants.waiting, "overlap": dict(constants.overlap)}


def _summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The errors and the coverage of some rows of one figure."""
    inside = [line["inside"] for line in lines]
    errors = [abs(line["predicted"] / line["measured"] - 1.0) for line in lines]
    return {
        "rows": len(lines),
        "sources": len({line["source"] for line in lines}),
        "error": float(np.mean(errors)),
        "worst": max(errors),
        "inside": None if None in inside else sum(inside),
    }


def text() -> str:
    """The record as text."""
    return json.dumps(shortened(figures(), RECORD_DIGITS), indent=1) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Writes the record."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    write_all({PATH: text()})


if __name__ == "__main__":
    main()
