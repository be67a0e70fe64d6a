"""The fitted constants of engines on several nodes, from ``hardware/fitted/racks.yaml``."""

import datetime
from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.calibrations.fit_errors import LogError


class Factor(Frozen):
    """A fitted factor."""

    value: Annotated[float, Meta(ge=0, le=10)]
    source: Text


class Imbalance(Frozen):
    """The imbalance of tokens between ranks.

    - balanced: number of tokens of the rank with the most tokens, divided by the mean over ranks, if experts
      are placed by load.
    - spread: standard deviation of the number of tokens per expert, divided by its mean. The imbalance of
      experts that are placed in order follows from it.
    """

    balanced: Annotated[float, Meta(ge=1, le=16)]
    spread: Annotated[float, Meta(ge=0, le=16)]
    source: Text


class RackConstants(Frozen):
    """The contents of ``hardware/fitted/racks.yaml``.

    - waiting: see `Fabric`.
    - overlap: the value of `Fabric.overlap` for each engine.
    - step_log_rms, speedup_log_rms: root mean square of ln(predicted / measured) for measurements whose
      source was left out of the fit.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    waiting: Factor
    overlap: dict[str, Factor]
    imbalance: Imbalance
    step_log_rms: LogError
    speedup_log_rms: LogError


@cache
def rack_constants() -> RackConstants:
    """The contents of the bundled file ``hardware/fitted/racks.yaml``."""
    return files.load_bundled(RackConstants, "fitted", "racks")
