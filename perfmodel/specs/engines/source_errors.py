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

Deviation = Annotated[float, Meta(ge=0, le=10)]
OTHER = "other"
"""Of an engine without rows of its own."""


class RowDeviation(Frozen):
    """What is left of a row: at batches below `StepErrors.crowded_from`, and from there on, where prompts
    of other requests stall passes of some engines.
    """

    alone: Deviation
    crowded: Deviation


class StepErrors(Frozen):
    """The file. widening: what the deviations are multiplied by so that a normal interval holds 90 % of the
    rows of sources left out. engines: by word of ``--engine``, or ``other``. devices: those of the rows.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    sources: Positive
    rows: Positive
    widening: Annotated[float, Meta(gt=0, le=10)]
    source: Deviation
    server: Deviation
    crowded_from: Positive
    engines: dict[str, RowDeviation]
    devices: tuple[str, ...]

    def deviation(self, engine: str, batch: Floats) -> Floats:
        """Standard deviation of the logarithm of a step's time at these batches."""
        row = self.engines.get(engine, self.engines[OTHER])
        own = np.where(np.asarray(batch) < self.crowded_from, row.alone, row.crowded)
        return np.asarray(self.widening * np.sqrt(self.source**2 + self.server**2 + own**2))


@cache
def step_errors() -> StepErrors:
    """The bundled file."""
    return files.load_bundled(StepErrors, "", "sources")
