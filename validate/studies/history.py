"""How accuracy moved: ``results/history.csv``, one line a set and partition for each time it was written."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.errors import refuse
from perfmodel.plots.theme import BRIGHT, canvas, figure_of, styled
from perfmodel.reading import read_csv
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.records import code_version
from perfmodel.validate.records.store import BUNDLED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("commit", "date", "set", "partition", "mape", "bias", "worst")
Line = dict[str, str]
MODE = "held-out"
"""The replay that history follows."""


def path(results: Path = BUNDLED) -> Path:
    """Where history is kept."""
    return results / "history.csv"


def lines_of(found: dict[str, Any], commit: str, date: str) -> list[Line]:
    """The lines that one accuracy record adds: overall, and every set and device by quantity."""
    replay = found["replays"][MODE]
    cut = {"overall": replay["overall"]} | {k: v for k, v in replay["partitions"].items() if k.count("/") == 2}
    lines = []
    for name, figures in cut.items():
        set_name, _, partition = name.partition("/")
        numbers = {key: f"{figures[key]:.5f}" for key in ("mape", "bias", "worst")}
        lines.append({"commit": commit, "date": date, "set": set_name, "partition": partition or "all", **numbers})
    return lines


def grown(known: Sequence[Line], fresh: Sequence[Line]) -> list[Line]:
    """The lines with fresh ones behind them, unless the last ones say the same."""
    same = [_figures(line) for line in known[-len(fresh) :]] == [_figures(line) for line in fresh]
    return [*known, *([] if same else fresh)]


def render(lines: Iterable[Line]) -> str:
    """The text of the file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _figures(line: Line) -> Line:
    return {name: text for name, text in line.items() if name not in ("commit", "date")}


def read(where: Path) -> list[Line]:
    """All lines, oldest first; none where there is no file. Raises InputError for a line that is not one."""
    if not where.exists():
        return []
    found = read_csv(where, COLUMNS)
    for number, line in found:
        for name in ("mape", "bias", "worst"):
            if not re.fullmatch(r"-?\d{1,9}\.\d{5}", line[name]):
                raise refuse(f"{where}: line {number}", name, "a number with 5 decimals", line[name])
    return [line for _, line in found]


def commit() -> str:
    """The commit that the tree stands on, ``+`` where it differs from it; ``unknown`` where nothing says."""
    known = code_version.commit()
    return known["commit"][:8] + "+" * known["dirty"]


def summary(lines: list[Line]) -> str:
    """Markdown: the latest figures of every partition, and how far each moved since the time before."""
    latest: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        latest.setdefault((line["set"], line["partition"]), []).append(line)
    rows = []
    for name, seen in latest.items():
        mape, bias, worst = (100 * float(seen[-1][key]) for key in ("mape", "bias", "worst"))
        change = f"{mape - 100 * float(seen[-2]['mape']):+.2f}" if len(seen) > 1 else "-"
        rows.append([*name, f"{mape:.2f}", change, f"{bias:+.2f}", f"{worst:+.1f}", seen[-1]["commit"]])
    head = ["set", "partition", "mean error %", "change", "bias %", "worst %", "commit"]
    text = ["### Accuracy on held-out rows", "", *table(head, rows, text_columns=(0, 1, 6))]
    return "\n".join(text) + "\n"


@styled
def plot(lines: list[Line]) -> "Figure":
    """The mean error of each partition over the records that changed it."""
    series: dict[str, list[float]] = {}
    for line in lines:
        series.setdefault(f"{line['set']} {line['partition']}", []).append(100 * float(line["mape"]))
    axes, _ = canvas(None, (10, 5))
    for colour, (name, errors) in zip(cycle(BRIGHT), series.items(), strict=False):
        axes.plot(range(1, len(errors) + 1), errors, marker="o", markersize=3, color=colour, label=name)
    axes.set(xlabel="record", ylabel="mean error, %", title="Accuracy on held-out rows")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure_of(axes)
