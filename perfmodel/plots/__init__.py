"""Pictures of what the engine answers, one function each; `perfmodel plot` and the notebooks draw with these.

Every function takes engine objects or plain numbers and, by name, `axes` to draw on (a new figure without), and
returns the figure. `save` writes it with the same bytes for the same numbers. matplotlib is needed on use only.
"""

from perfmodel.plots.choice import alpha_needed, devices, pareto
from perfmodel.plots.measured import band, residuals
from perfmodel.plots.passes import breakdown, ratios, roofline
from perfmodel.plots.widgets import sliders
from perfmodel.plots.theme import save, style
from perfmodel.plots.surfaces import gamma_curves, gamma_map, surface

__all__ = [
    "roofline",
    "surface",
    "ratios",
    "breakdown",
    "gamma_curves",
    "gamma_map",
    "pareto",
    "alpha_needed",
    "devices",
    "residuals",
    "band",
    "sliders",
    "save",
    "style",
]
