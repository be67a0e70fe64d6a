"""Pictures of the engine's answers, one function each; `perfmodel plot` and the notebooks use them.

Every function takes a question (`Query`), answers or plain numbers and returns a figure. `save` writes it
with the same bytes for the same numbers. matplotlib is loaded on use only.
"""

from perfmodel.plots.breakdown import breakdown
from perfmodel.plots.curves import curves
from perfmodel.plots.pareto import pareto
from perfmodel.plots.ratios import ratios
from perfmodel.plots.residuals import residuals
from perfmodel.plots.roofline import roofline
from perfmodel.plots.surfaces import surface
from perfmodel.plots.theme import save, style
from perfmodel.plots.traffic import traffic

__all__ = [
    "roofline",
    "surface",
    "curves",
    "ratios",
    "breakdown",
    "pareto",
    "residuals",
    "traffic",
    "save",
    "style",
]
