"""How accuracy moved: ``results/history.csv``, one line a set and partition for each time it was written."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from perfmodel.errors import refuse
from perfmodel.reading import read_rows
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.records import code_version
from perfmodel.validate.records.store import BUNDLED
from perfmodel.validate.solving import grouped


@dataclass(frozen=True, slots=True)
class Line:
    """Errors of a set, or of a part of it, as of a commit: shares."""

    commit: str
    date: str
    set: str
    partition: str
    mape: float
    bias: float
    worst: float


PATH = BUNDLED / "history.csv"
MODE = "held-out"
"""The replay that history follows."""


def history_lines(found: dict[str, Any], commit: str, date: str) -> list[Line]:
    """The lines that one accuracy record adds: overall, and every set and device by quantity."""
    replay = found["replays"][MODE]
    cut = {"overall": replay["overall"]} | {
        k: v for k, v in replay["partitions"].items() if k.count("/") == 2
    }
    lines = []
    for name, figures in cut.items():
        set_name, _, partition = name.partition("/")
        numbers = (round(figures[key], 5) for key in ("mape", "bias", "worst"))
        lines.append(Line(commit, date, set_name, partition or "all", *numbers))
    return lines


def grown(known: Sequence[Line], fresh: Sequence[Line]) -> list[Line]:
    """The lines with fresh ones behind them, unless the last ones say the same."""
    last, new = ([astuple(line)[2:] for line in lines] for lines in (known[-len(fresh) :], fresh))
    return [*known, *([] if last == new else fresh)]


def render(lines: Iterable[Line]) -> str:
    """The text of the file."""
    cells = ((f"{cell:.5f}" if isinstance(cell, float) else cell for cell in astuple(line)) for line in lines)
    return "".join(",".join(row) + "\n" for row in ([field.name for field in fields(Line)], *cells))


def read(where: Path) -> list[Line]:
    """All lines, oldest first; empty without a file. Raises InputError for an invalid line."""
    lines = read_rows(where, Line) if where.exists() else ()
    for number, line in enumerate(lines, 2):
        if line.mape < 0:
            raise refuse(f"{where}: line {number}", "mape", "0 or more", line.mape)
    return list(lines)


def commit() -> str:
    """The commit of the tree, with ``+`` if the tree differs from it; ``unknown`` without git and
    PERFMODEL_COMMIT.
    """
    known = code_version.commit()
    return known["commit"][:8] + "+" * known["dirty"]


def summary(lines: list[Line]) -> str:
    """Markdown: the latest figures of every partition, and how far each moved since the time before."""
    rows = []
    for name, seen in grouped(lines, lambda line: (line.set, line.partition)).items():
        last = seen[-1]
        change = f"{100 * (last.mape - seen[-2].mape):+.2f}" if len(seen) > 1 else "-"
        figures = (f"{100 * last.mape:.2f}", change, f"{100 * last.bias:+.2f}", f"{100 * last.worst:+.1f}")
        rows.append([*name, *figures, last.commit])
    head = ["set", "partition", "mean error %", "change", "bias %", "worst %", "commit"]
    text = ["### Accuracy on held-out rows", "", *table(head, rows, text_columns=(0, 1, 6))]
    return "\n".join(text) + "\n"
