"""Everything that needs a measurement: records, a decoder that runs models, calibration and comparison. Heavy
modules are imported on first use.

Python callers use ``perfmodel.validate.calibrate_engine`` and ``perfmodel.validate.check``. They do the same
as the commands ``validate engine`` and ``validate check``.
"""

from importlib import import_module
from typing import Any

_PLACES = {"calibrate_engine": "engine.sources", "check": "accuracy.check"}


def __getattr__(name: str) -> Any:
    """The function `name`, imported from its module in `_PLACES`."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
