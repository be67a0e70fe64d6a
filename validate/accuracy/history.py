"""How accuracy moved: ``results/history.csv``, one line a set and partition for each time it was written."""

import csv
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, canvas, styled
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.records import code_version
from perfmodel.validate.records.store import RESULTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("commit", "date", "set", "partition", "mape", "bias", "worst")
MODE = "held-out"
"""The replay that history follows."""


def path() -> Path:
    """Where history is kept."""
    return RESULTS / "history.csv"


def lines_of(found: dict[str, Any], commit: str, date: str) -> list[dict[str, str]]:
    """The lines that one accuracy record adds: overall, and every set and device by quantity."""
    replay = found["replays"][MODE]
    cut = {"overall": replay["overall"]} | {k: v for k, v in replay["partitions"].items() if k.count("/") == 2}
    lines = []
    for name, figures in cut.items():
        set_name, _, partition = name.partition("/")
        numbers = {key: f"{figures[key]:.5f}" for key in ("mape", "bias", "worst")}
        lines.append({"commit": commit, "date": date, "set": set_name, "partition": partition or "all", **numbers})
    return lines


def append(where: Path, lines: Iterable[dict[str, str]]) -> bool:
    """Add lines unless the last ones say the same; whether any was added."""
    known, fresh = read(where), list(lines)
    if [_figures(line) for line in known[-len(fresh) :]] == [_figures(line) for line in fresh]:
        return False
    with where.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if not known:
            writer.writeheader()
        writer.writerows(fresh)
    return True


def _figures(line: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in line.items() if name not in ("commit", "date")}


def read(where: Path) -> list[dict[str, str]]:
    """All lines, oldest first; none where there is no file."""
    if not where.is_file():
        return []
    with where.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def commit() -> str:
    """The commit that the tree stands on, ``+`` where it differs from it; ``unknown`` where nothing says."""
    try:
        known = code_version.commit()
    except InputError:
        return "unknown"
    return known["commit"][:8] + "+" * known["dirty"]


def summary(lines: list[dict[str, str]]) -> str:
    """Markdown: the latest figures of every partition, and how far each moved since the time before."""
    latest: dict[tuple[str, str], list[dict[str, str]]] = {}
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
def plot(lines: list[dict[str, str]]) -> "Figure":
    """The mean error of each partition over the records that changed it."""
    series: dict[str, list[float]] = {}
    for line in lines:
        series.setdefault(f"{line['set']} {line['partition']}", []).append(100 * float(line["mape"]))
    figure, axes = canvas(None, (10, 5))
    for colour, (name, errors) in zip(cycle(BRIGHT), series.items(), strict=False):
        axes.plot(range(1, len(errors) + 1), errors, marker="o", markersize=3, color=colour, label=name)
    axes.set(xlabel="record", ylabel="mean error, %", title="Accuracy on held-out rows")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
