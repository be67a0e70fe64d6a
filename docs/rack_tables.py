"""Errors of predictions for racks and pools, as tables of `docs/accuracy.md` and `docs/racks.md`."""

import json
from pathlib import Path
from typing import Any

from perfmodel import whatif
from perfmodel.validate.accuracy.markdown import table

RECORD = Path(__file__).parents[1] / "results" / "racks.json"
TITLES = {
    "step": "step or iteration",
    "speedup": "speedup",
    "throughput": "throughput per GPU",
    "prefill": "prompt tokens per GPU",
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


DEPLOYMENTS = {
    "lmsys-h100-05": "DeepSeek-R1, decode on 72 H100, 256 requests per rank, two micro-batches (ms per step)",
    "srt-dsv4-b200-18": "DeepSeek-V4-Pro with MTP 3, 2 x 8 prefill and 1 x 8 decode on B200, 282 clients "
    "(tokens/s per GPU)",
    "tt-h100-tp16-03": "DeepSeek-R1, TP 16 on two nodes of H100, one request (ms per step)",
}
"""Rows of `docs/racks.md` -> what they are."""


def rack_rows() -> str:
    """Three published deployments next to their predictions."""
    found = record()["rows"]
    cells = []
    for row_id, words in DEPLOYMENTS.items():
        figures = [r for r in found if r["row"] == row_id and r["figure"] in ("step", "throughput")]
        row = figures[-1]
        error = row["predicted"] / row["measured"] - 1.0
        cells.append([words, f"{row['measured']:.4g}", f"{row['predicted']:.4g}", f"{round(100 * error):+d}"])
    return "\n".join(table(["deployment", "measured", "predicted", "error %"], cells)) + "\n"


LAYOUTS: dict[str, dict[str, Any]] = {
    "DP 16, EP 16 on 2 x 8": {"nodes": "2x8", "ep": 16, "dp": 16},
    "TP 8 on one node": {"tp": 8},
}


def latent_surface() -> str:
    """Verification of four tokens over a step of DeepSeek-V3 on H200, by layout, context and batch."""
    batches = (1, 4, 16, 64)
    rows = []
    for title, layout in LAYOUTS.items():
        ranks = layout.get("dp", 1)
        for context in (2048, 32768):
            ratios = []
            for batch in batches:
                answer = whatif(
                    model="deepseek-v3",
                    hardware="h200",
                    engine="sglang",
                    draft="mtp",
                    alpha=0.7,
                    gamma=3,
                    batch=batch * ranks,
                    context=context,
                    **layout,
                )
                ratios.append(f"{answer.cost_ratios.verify_to_target:.2f}")
            rows.append([title, f"{context // 1024}K", *ratios])
    head = ["layout", "context", *(f"{batch} per rank" for batch in batches)]
    return "\n".join(table(head, rows)) + "\n"
