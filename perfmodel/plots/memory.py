"""Which points of a picture fit in memory."""

import numpy as np

from perfmodel.operations import Floats, Mask
from perfmodel.speculation import Scenario, capacity


def fits_in_memory(
    scenario: Scenario, batch: Floats, context: Floats, gamma: Floats, fraction: float | None
) -> Mask:
    """Whether memory suffices, over the shape of the arguments. The result is True everywhere on a device
    with unknown memory.

    - fraction: the share of the memory that the engine uses; None means the engine's default.
    """
    shape = np.broadcast_shapes(np.shape(batch), np.shape(context), np.shape(gamma))
    if scenario.machine.gpu.memory is None:
        return np.ones(shape, bool)
    return np.broadcast_to(
        np.asarray(capacity.memory_of(scenario, batch, context, gamma, fraction).fits), shape
    )
