"""The question of the pictures, and what is read of a drawn one."""

from typing import Any

import matplotlib
from matplotlib.figure import Figure

from perfmodel import plots
from perfmodel.answers.grid.sweep import Sweep, sweep
from perfmodel.answers.question import Query

ASK = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)


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


def legend_of(axes: Any) -> list[str]:
    return [written(text) for text in axes.get_legend().get_texts()]
