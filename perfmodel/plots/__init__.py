"""Draws answers, with one function for each kind of picture; `perfmodel plot` and the notebooks use these
functions.

A function takes a question (`Query`), an answer or plain numbers, and returns a matplotlib figure. `save`
writes the figure to a file. The same numbers give the same bytes. matplotlib is only imported when a function
draws.
"""

from perfmodel.plots.breakdown import breakdown
from perfmodel.plots.curves import curves
from perfmodel.plots.palette import style
from perfmodel.plots.pareto import pareto
from perfmodel.plots.ratios import ratios
from perfmodel.plots.residuals import residuals
from perfmodel.plots.roofline import roofline
from perfmodel.plots.surfaces import surface
from perfmodel.plots.theme import save
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
