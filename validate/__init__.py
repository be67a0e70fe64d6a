"""Measurement: published and own records, a real decoder, calibration and comparison. Heavy parts are loaded
on use.

For Python: ``perfmodel.validate.calibrate_engine`` and ``perfmodel.validate.check``, named like the commands.
"""

from importlib import import_module
from typing import Any

_PLACES = {"calibrate_engine": "engine.sources", "check": "accuracy.check"}


def __getattr__(name: str) -> Any:
    """Loads a function of `_PLACES`."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
