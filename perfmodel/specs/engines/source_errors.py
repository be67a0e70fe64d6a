"""How far steps of serving engines are off sources that were left out, from ``hardware/sources.yaml``.

The logarithm of measured over predicted is a sum of what a source adds (settings that its page does not
state), what one server of it adds (model, device, degree, version), and what is left of a row. Each has a
standard deviation, fitted to runs of public sources by their marginal likelihood
(`validate calibrate sources`). A step that somebody asks for is of a new source and of a new server.
"""

import datetime
from functools import cache
from typing import Annotated

import numpy as np
from msgspec import Meta

from perfmodel.operations import Floats
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import architecture_of

Deviation = Annotated[float, Meta(ge=0, le=10)]
OTHER = "other"
"""Of an engine, or a kind of device, without rows of its own."""
BORROWED = "borrowed"
"""Devices that borrow another device's kernels."""


class RowDeviation(Frozen):
    """What is left of a row: at batches below `StepErrors.crowded_from`, and from there on, where prompts
    of other requests stall passes of some engines.
    """

    alone: Deviation
    crowded: Deviation


class StepErrors(Frozen):
    """The file. widening: factor on the deviations with which a normal interval holds 90 % of the rows of
    sources left out, by architecture, for `BORROWED` kernels, or ``other``. engines: by word of ``--engine``,
    or ``other``. devices: those of the rows.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    sources: Positive
    rows: Positive
    widening: dict[str, Annotated[float, Meta(gt=0, le=10)]]
    source: Deviation
    server: Deviation
    crowded_from: Positive
    engines: dict[str, RowDeviation]
    devices: tuple[str, ...]

    def deviation(self, engine: str, batch: Floats, kernels: str) -> Floats:
        """Standard deviation of the logarithm of a step at these batches. kernels: see `kernels_of`."""
        row = self.engines.get(engine, self.engines[OTHER])
        own = np.where(np.asarray(batch) < self.crowded_from, row.alone, row.crowded)
        factor = self.widening.get(kernels, self.widening[OTHER])
        return np.asarray(factor * np.sqrt(self.source**2 + self.server**2 + own**2))


def kernels_of(gpu: GPUSpec, measured_on: str | None) -> str:
    """Key of `StepErrors.widening` for a device with kernels that were measured on this or another one."""
    return architecture_of(gpu) if gpu.name == measured_on else BORROWED


@cache
def step_errors() -> StepErrors:
    """The bundled file."""
    return files.load_bundled(StepErrors, "", "sources")
