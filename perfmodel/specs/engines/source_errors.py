"""Errors of predictions for sources that were left out of the fit, from ``hardware/sources.yaml``.

The error of a row is ln(predicted / measured). The prediction uses constants that were fitted without the
source of this row (`validate calibrate sources`). This matches a user's question, because the user's server
was not part of the fit either.

A speculative iteration takes the time of a baseline step plus some extra time. Only the extra time makes the
ratio of iteration to step uncertain. The error of a speedup is therefore divided by the share of the
iteration that is extra time (`extra_share`).
"""

import datetime
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, field

from perfmodel.operations import Floats
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive
from perfmodel.specs.calibrations.fit_errors import MAX_LOG_RMS, LogError, Z
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import architecture_of

StepClass = Literal["own", "borrowed", "llamacpp", "other_engine"]
"""The class of a baseline step. ``own``: the kernels were measured on the device itself. ``borrowed``: they
were measured on another device. ``llamacpp``: the engine has its own errors. ``other_engine``: the constants
are those of another engine.
"""
SpeedupClass = Literal["known", "new", "llamacpp", "other_engine"]
"""The class of a speedup. ``known``: this kind of draft was measured with the engine. ``new``: it was not
measured with the engine. ``llamacpp``: the engine has its own errors. ``other_engine``: the constants are
those of another engine.
"""
OTHER_MEMORY = ("GDDR", "LPDDR")
"""Kinds of memory of boards and of small machines. Devices of servers have HBM."""
LogShift = Annotated[float, Meta(ge=-MAX_LOG_RMS, le=MAX_LOG_RMS)]
"""The logarithm of a measured value divided by its prediction."""
LEAST_EXTRA = 0.1
"""Smallest share of extra time by which an error is divided, because drafting always costs some time."""


class SourceError(Frozen):
    """The error of predictions of one class.

    - log_within: half-width of the interval that contains 90 % of the errors of left-out sources. For
      speedups, errors are divided by `extra_share`.
    - log_middle: middle of that interval, as ln(measured / predicted).
    - devices, middles: half-width and middle for each class of devices (`device_class`) that has rows. In
      their computation, the rows of that class have the largest weight.
    """

    log_within: LogError
    sources: Positive
    rows: Positive
    devices: dict[str, LogError] = field(default_factory=dict)
    log_middle: LogShift = 0.0
    middles: dict[str, LogShift] = field(default_factory=dict)

    def log_within_on(self, gpu: GPUSpec) -> float:
        """The half-width for a device. If the class of the device has no rows, the half-width for all devices
        is returned.
        """
        return self.devices.get(device_class(gpu), self.log_within)

    def log_middle_on(self, gpu: GPUSpec) -> float:
        """The middle for a device. If the class of the device has no rows, the middle for all devices is
        returned.
        """
        return self.middles.get(device_class(gpu), self.log_middle)

    def deviation_on(self, gpu: GPUSpec) -> float:
        """Standard deviation of the normal distribution whose 90 % interval has the same width as the
        interval of the errors on a device (`log_within_on`).
        """
        return self.log_within_on(gpu) / Z


class SourceErrors(Frozen):
    """The contents of ``hardware/sources.yaml``.

    - devices: the devices on which baseline steps were measured.
    - steps, speedups: errors by class (`StepClass`, `SpeedupClass`). If an engine has its own errors, its
      class has the engine's word as its name.
    - speculating: the device classes (`device_class`) with measured speedups, by engine (its word in
      ``--engine``) and by kind of draft.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    steps: Mapping[str, SourceError]
    speedups: Mapping[str, SourceError]
    devices: tuple[str, ...]
    speculating: dict[str, dict[str, tuple[str, ...]]]

    def devices_with(self, engine: str, draft: str) -> tuple[str, ...]:
        """The classes of devices on which the speedup of this engine with this kind of draft was measured."""
        return self.speculating.get(engine, {}).get(draft, ())


def extra_share(ratio: Floats) -> Floats:
    """The share of an iteration that is extra time, from the ratio of iteration time to step time. The result
    is at least `LEAST_EXTRA`.
    """
    return np.maximum(1.0 - 1.0 / ratio, LEAST_EXTRA)


def device_class(gpu: GPUSpec) -> str:
    """The class of a device, such as ``hopper`` or ``blackwell GDDR``. It consists of architecture and kind
    of memory, which determine the kernels that an engine chooses.
    """
    memory = next((kind for kind in OTHER_MEMORY if gpu.memory_type.startswith(kind)), "")
    return f"{architecture_of(gpu)} {memory}".strip()


@cache
def source_errors() -> SourceErrors:
    """The contents of the bundled file ``hardware/sources.yaml``."""
    return files.load_bundled(SourceErrors, "", "sources")
