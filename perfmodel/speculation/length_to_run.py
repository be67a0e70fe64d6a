"""The draft length to run, where the acceptance was measured at shorter contexts only."""

import numpy as np

from perfmodel.operations import Array, Ints
from perfmodel.speculation.evidence import is_beyond_measured_context
from perfmodel.speculation.scenario import Scenario

NEAR = 0.015
"""Share by which a shorter draft may be slower and still be chosen: less of it is lost if a head accepts less
than it did for short prompts (an assumption).
"""


def length_to_run(scenario: Scenario, context: float, times_s: Array) -> Ints:
    """The index along the first axis of the fastest draft; beyond the contexts of the acceptance, that of the
    first one that is at most `NEAR` slower.

    times_s: of drafts by rising length; infinite for one that is not allowed.
    """
    near = times_s <= (1.0 + most_given_up(scenario, context)) * np.min(times_s, 0)
    return np.asarray(np.argmax(near, 0))


def most_given_up(scenario: Scenario, context: float) -> float:
    """The largest share by which the length to run may be slower than the fastest."""
    return NEAR if is_beyond_measured_context(scenario, context) else 0.0
