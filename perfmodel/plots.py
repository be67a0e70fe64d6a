"""Pictures of what the engine answers, one function each; `perfmodel plot` and the notebooks draw with these.

Every function takes engine objects or plain numbers and, by name, `axes` to draw on (a new figure without), and
returns the figure. `save` writes it with the same bytes for the same numbers. matplotlib is needed on use only.
"""

from perfmodel.plots_choice import alpha_needed, devices, pareto
from perfmodel.plots_clock import band, residuals
from perfmodel.plots_passes import breakdown, ratios, roofline
from perfmodel.plots_sliders import sliders
from perfmodel.plots_style import save, style
from perfmodel.plots_surface import gamma_curves, gamma_map, surface

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
