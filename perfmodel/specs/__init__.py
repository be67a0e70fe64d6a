"""What is read from files: devices, models, calibrations, published rows, number formats and units."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""Where the bundled files are: ``models/``, ``hardware/`` and ``results/`` lie in the package (in a clone as
links).
"""
