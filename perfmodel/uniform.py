"""The uniform distribution, which models the lengths of requests and the contexts of a batch."""

from typing import overload

from perfmodel.operations import Floats

ROOT_3 = 3**0.5
"""Half the width of a uniform distribution, divided by its standard deviation."""


def largest_std(mean: float) -> float:
    """Standard deviation of the widest uniform distribution with this mean. This distribution extends from 0
    to twice the mean.
    """
    return mean / ROOT_3


@overload
def half_width(std: float) -> float: ...


@overload
def half_width(std: Floats) -> Floats: ...


def half_width(std: Floats) -> Floats:
    """Half the width of a uniform distribution with this standard deviation."""
    return ROOT_3 * std
