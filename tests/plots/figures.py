"""The question of the pictures, and what is read of a drawn one."""

from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from perfmodel import plots
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.grid.sweep import Sweep, sweep
from perfmodel.answers.question import Query

ASK = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)
LONG = replace(
    ASK,
    model="qwen3-235b-a22b",
    hardware="h200-sxm-141gb",
    draft_kv="pqcache:1024,subvectors=2,bits=6,iterations=10",
    calibration="ideal",
)
"""A question with long names, for titles that hardly fit."""
CHOICE = AdviseQuery(
    "llama-3.1-8b",
    "a100",
    32768,
    batch=(1, 8, 64),
    tp=(1, 8),
    rate={"self@streamingllm:512": "0.8"},
    any_draft=True,
    max_tpot_ms=20,
)
"""A choice among three batches and two layouts, within a limit of TPOT."""


def swept(**lists: Any) -> Sweep:
    """A sweep of the question of the other pictures."""
    return sweep(ASK, **lists)


def laid_out(figure: Figure) -> Figure:
    """A picture as it is saved."""
    with plots.style():
        figure.draw_without_rendering()
    return figure


def written(text: matplotlib.text.Text) -> str:
    return str(text.get_text()).strip()


def words_around(figure: Figure) -> str:
    """The title, the subtitle and the caption, each in one line."""
    parts = [figure.get_suptitle(), *(text.get_text() for text in figure.texts), figure.get_supxlabel()]
    return "\n".join(" ".join(part.split()) for part in parts)


def title_of(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


def legend_of(axes: Any) -> list[str]:
    return [written(text) for text in axes.get_legend().get_texts()]


def within(whole: Any, box: Any) -> bool:
    """Whether a box has both corners in another."""
    low_corner = whole.contains(box.x0, box.y0)
    high_corner = whole.contains(box.x1, box.y1)
    return bool(low_corner and high_corner)
