"""How many rows lie in intervals that follow from the held-out errors of the other groups."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.held_out_errors import HeldOutErrors


class Covered(NamedTuple):
    """The intervals of rows, each from the errors of the other groups.

    - inside: 1 if the interval of a row contains its measured value, else 0.
    - half_width: the half-width of the interval of each row, in logarithms.
    """

    inside: Array
    half_width: Array


def covered(errors: HeldOutErrors, least: Mapping[str, float]) -> Covered:
    """Compares each row with the interval that follows from the errors of the other groups.

    - least: engine -> smallest half-width of its intervals.
    """
    inside = np.empty(len(errors.off))
    width = np.empty(len(errors.off))
    groups = grouped(range(len(errors.off)), lambda i: errors.groups[i])
    for group, index in groups.items():
        engine = errors.engines[index[0]]
        others = errors.part(i for i, name in enumerate(errors.groups) if name != group)
        stated = others.scatter(engine, "rows of the other groups")
        width[index] = max(stated.log_within or 0.0, least.get(engine, 0.0))
        inside[index] = np.abs(errors.off[index]) <= width[index]
    return Covered(inside, width)
