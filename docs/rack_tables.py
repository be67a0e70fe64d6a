"""Errors of predictions for racks and pools, as tables of `docs/accuracy.md` and `docs/racks.md`."""

import json
from pathlib import Path
from typing import Any

from perfmodel.validate.accuracy.markdown import table

RECORD = Path(__file__).parents[1] / "results" / "racks.json"
TITLES = {
    "step": "step or iteration",
    "speedup": "speedup",
    "throughput": "throughput per GPU",
    "ratio": "P:D ratio",
}
"""Figure of the record -> its heading."""


def record() -> dict[str, Any]:
    """The record of the study."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def racks() -> str:
    """Errors by figure, then by source."""
    found = record()
    head = [
        "racks and pools, sources left out",
        "rows",
        "sources",
        "mean error %",
        "worst %",
        "in 90% interval",
    ]
    rows = []
    for figure, title in TITLES.items():
        if figure not in found["summary"]:
            continue
        rows.append(_row(f"**{title}, all**", found["summary"][figure]))
        rows += [_row(f"{title}, {source}", e) for source, e in found["by_source"][figure].items()]
    return "\n".join(table(head, rows)) + "\n"


def _row(name: str, e: dict[str, Any]) -> list[str]:
    counts = [str(e["rows"]), str(e["sources"])]
    errors = [f"{100 * e['error']:.0f}", f"{100 * e['worst']:.0f}"]
    return [name, *counts, *errors, f"{e['inside']} of {e['rows']}" if e["inside"] is not None else "-"]
