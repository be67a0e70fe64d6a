"""Errors of predicted engine steps for held-out sources, from ``hardware/sources.yaml``.

The logarithm of measured over predicted is a sum of three parts: one of the source (settings that its page
does not state), one of the server within it (model, device, degree, version), and the rest of the row. The
standard deviation of each part is fitted to runs of public sources by marginal likelihood (`validate
calibrate sources`). A user's question is about a new source and a new server.
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
"""Key of engines, or kinds of device, without their own rows."""
BORROWED = "borrowed"
"""Key of devices that borrow another device's kernels."""


class RowDeviation(Frozen):
    """Deviation of a single row: at batches below `StepErrors.crowded_from`, and above, where prompts of
    other requests delay passes of some engines.
    """

    alone: Deviation
    crowded: Deviation


class StepErrors(Frozen):
    """The file. widening: factor on the deviations such that a normal interval contains 90 % of the rows of
    held-out sources.

    Its keys are architectures, `BORROWED` for borrowed kernels, and ``other``. engines: by word of
    ``--engine``, or ``other``. devices: those of the rows.
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

    def deviation(self, engine: str, batch: Floats, kernels: str, server: float | None = None) -> Floats:
        """Standard deviation of the logarithm of a step at these batches.

        kernels: see `kernels_of`. server: part of a server that was measured; by default a new one's.
        """
        row = self.engines.get(engine, self.engines[OTHER])
        own = np.where(np.asarray(batch) < self.crowded_from, row.alone, row.crowded)
        factor = self.widening.get(kernels, self.widening[OTHER])
        of_server = self.server if server is None else server
        return np.asarray(factor * np.sqrt(self.source**2 + of_server**2 + own**2))


def kernels_of(gpu: GPUSpec, measured_on: str | None) -> str:
    """Key of `StepErrors.widening` for a device with its own or another one's kernels."""
    return architecture_of(gpu) if gpu.name == measured_on else BORROWED


@cache
def step_errors() -> StepErrors:
    """The bundled file."""
    return files.load_bundled(StepErrors, "", "sources")
