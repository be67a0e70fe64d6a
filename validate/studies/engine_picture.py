"""One picture of how far step times of serving engines are off: every held-out row, by engine, device and model."""

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.plots.theme import BRIGHT, canvas, label, styled
from perfmodel.validate.studies.engine_errors import steps_with_errors
from perfmodel.validate.studies.parameters import ENGINES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 0.3
"""How far rows of one line are moved apart, in lines."""


@styled
def plot() -> "Figure":
    """Predicted over measured less 1, in percent; each model, device and degree was held out of its fit."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for engine, device, model, off in steps_with_errors():
        found.setdefault((engine, device, model), []).append(100.0 * float(np.expm1(off)))
    lines = sorted(found, key=lambda line: ([*ENGINES].index(line[0]), *line[1:]), reverse=True)
    axes, own = canvas(None, (9, 0.34 * len(lines) + 1.2))
    for place, line in enumerate(lines):
        errors = sorted(found[line])
        places = place + SPREAD * (np.arange(len(errors)) / max(len(errors) - 1, 1) - 0.5)
        colour = BRIGHT[[*ENGINES].index(line[0])]
        axes.plot(errors, places, "o", markersize=3, color=colour, alpha=0.6, markeredgewidth=0)
        axes.plot(np.mean(errors), place, "|", markersize=13, color=colour)
    labels = [f"{ENGINES[engine]}, {device}, {model}" for engine, device, model in lines]
    axes.set_yticks(range(len(lines)), labels, fontsize=7)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel="predicted / measured step time - 1, %")
    named = "a dot is a row, a bar their mean; each model, device and degree was held out of its fit"
    return label(axes, own, "Error of predicted decode steps, by engine, device and model", named)
