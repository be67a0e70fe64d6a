"""Reads files: devices, models, calibrations, published rows, number formats and units."""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of the package `perfmodel`."""


@cache
def data_folder(name: str) -> Path:
    """The folder ``models``, ``hardware`` or ``results``: inside an installed package, or next to it in a
    clone.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
