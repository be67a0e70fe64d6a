"""Errors of predictions for sources left out, from ``hardware/sources.yaml``.

The logarithm of predicted over measured is a sum of three parts: one of the source (settings that its page
does not state), one of the server within it (model, device, degree, version), and the rest of the row. Each
part is Student t; their scales are fitted to errors by constants that have not seen the source (`validate
calibrate sources`). A user's question is about a new source and a new server.
"""

import datetime
from functools import cache
from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive
from perfmodel.specs.calibrations.fit_errors import LogError, Z
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import architecture_of

StepClass = Literal["own", "borrowed", "llamacpp"]
"""Steps of a serving engine on a device with kernels of its own, or with those of another one; and steps of
llama.cpp.
"""
SpeedupClass = Literal["known", "new", "llamacpp"]
"""Speedups of a kind of draft that was measured in the serving engine, or in no run of it; and those measured
in llama.cpp.
"""
OTHER_MEMORY = ("GDDR", "LPDDR")
"""Kinds of memory of boards and of small machines; servers have HBM."""
Number = Annotated[float, Meta(ge=0, le=10)]


class SourceError(Frozen):
    """The error of one class. source, server, row: medians of the scales of the three parts.

    log_within: half-width that holds 90 % of the errors of new sources: a quantile of their posterior
    predictive distribution.
    """

    log_within: LogError
    source: Number
    server: Number
    row: Number
    sources: Positive
    rows: Positive

    @property
    def deviation(self) -> float:
        """Standard deviation of the normal distribution with an equally wide 90 % interval."""
        return self.log_within / Z


class SourceErrors(Frozen):
    """The file. devices: those of the steps.

    speculating: word of ``--engine`` -> kind of draft -> device classes (`device_class`) with measured
    speedups.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    steps: dict[StepClass, SourceError]
    speedups: dict[SpeedupClass, SourceError]
    devices: tuple[str, ...]
    speculating: dict[str, dict[str, tuple[str, ...]]]

    def devices_with(self, engine: str, draft: str) -> tuple[str, ...]:
        """Classes of devices on which this engine's speedup with this kind of draft was measured."""
        return self.speculating.get(engine, {}).get(draft, ())


def device_class(gpu: GPUSpec) -> str:
    """Architecture and kind of memory, which decide the kernels that an engine chooses: ``hopper``,
    ``blackwell GDDR``.
    """
    memory = next((kind for kind in OTHER_MEMORY if gpu.memory_type.startswith(kind)), "")
    return f"{architecture_of(gpu)} {memory}".strip()


@cache
def source_errors() -> SourceErrors:
    """The bundled file."""
    return files.load_bundled(SourceErrors, "", "sources")
