"""Chooses the draft length to run if the acceptance was measured only at shorter contexts."""

import numpy as np

from perfmodel.operations import Array, Ints
from perfmodel.speculation.evidence import doublings_beyond
from perfmodel.speculation.scenario import Scenario

NEAR = 0.015
"""A shorter draft is chosen if it is slower by at most this share. It loses less if fewer tokens are accepted
than with short prompts. After several doublings of the measured context, the share is multiplied by their
number. The value is assumed.
"""
MOST = 0.04
"""Limit of this share for any number of doublings. The value is assumed."""


def length_to_run(scenario: Scenario, context: float, times_s: Array) -> Ints:
    """The index of the draft length to run, along the first axis. Usually it is the fastest length. If the
    acceptance was measured only at shorter contexts, it is the shortest length that is slower than the
    fastest by at most the share `most_given_up`.

    - times_s: times for the draft lengths in rising order. The time of a length that is not allowed is
      infinite.
    """
    near = times_s <= (1.0 + most_given_up(scenario, context)) * np.min(times_s, 0)
    return np.asarray(np.argmax(near, 0))


def most_given_up(scenario: Scenario, context: float) -> float:
    """The largest share by which the chosen length may be slower than the fastest length."""
    doublings = doublings_beyond(scenario, context)
    return min(NEAR * max(doublings, 1.0), MOST) if doublings else 0.0
