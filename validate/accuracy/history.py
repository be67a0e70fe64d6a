"""How accuracy moved: ``results/history.csv``, one line a set and partition for each time it was written."""

import csv
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perfmodel.validate.records.record import RESULTS

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
    """The commit that the tree stands on, ``+`` where it differs from it; PERFMODEL_COMMIT where there is no git."""
    if given := os.environ.get("PERFMODEL_COMMIT"):
        return given[:8]
    here = Path(__file__).parent

    def git(*words: str) -> str | None:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        head, changed = git("rev-parse", "--short=8", "HEAD"), git("status", "--porcelain")
    except OSError:
        return "unknown"
    return "unknown" if not head else head + ("+" if changed else "")


def summary(lines: list[dict[str, str]]) -> str:
    """Markdown: the latest figures of every partition, and how far each moved since the time before."""
    latest: dict[tuple[str, str], list[dict[str, str]]] = {}
    for line in lines:
        latest.setdefault((line["set"], line["partition"]), []).append(line)
    text = [
        "### Accuracy against published measurements (rows left out of the fit)",
        "",
        "| set | partition | mean error % | change | bias % | worst % | commit |",
        "| :-- | :-- | --: | --: | --: | --: | :-- |",
    ]
    for (name, partition), seen in latest.items():
        now = seen[-1]
        change = f"{100 * (float(now['mape']) - float(seen[-2]['mape'])):+.2f}" if len(seen) > 1 else "-"
        text.append(
            f"| {name} | {partition} | {100 * float(now['mape']):.2f} | {change} | {100 * float(now['bias']):+.2f} "
            f"| {100 * float(now['worst']):+.1f} | {now['commit']} |"
        )
    return "\n".join(text) + "\n"


def plot(lines: list[dict[str, str]], where: Path) -> None:
    """The mean error of each partition over the commits that changed it, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    series: dict[str, list[float]] = {}
    for line in lines:
        name = f"{line['set']} {line['partition']}"
        series.setdefault(name, []).append(100 * float(line["mape"]))
    figure, axes = pyplot.subplots(figsize=(10, 5), layout="constrained")
    for name, errors in series.items():
        axes.plot(range(1, len(errors) + 1), errors, marker="o", markersize=3, label=name)
    axes.set(xlabel="record", ylabel="mean error, %", title="Accuracy on rows left out of the fit")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(where, dpi=120)
    pyplot.close(figure)
