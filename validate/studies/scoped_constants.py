"""Constants that are fitted as products over scopes, such as all devices, a vendor and a device."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from perfmodel.validate.solving import Values


class Term(NamedTuple):
    """A fitted constant.

    - expected: the expected value of the constant.
    - common: the spread of the logarithm of the common value.
    - group: the spread of the logarithm of the factor for a group of devices (a vendor or a size of chip).
    - device: the spread of the logarithm of the factor for a device.
    """

    expected: float
    common: float
    group: float
    device: float

    @property
    def spreads(self) -> tuple[float, float, float]:
        """The spreads, beginning with that of the widest scope."""
        return self.common, self.group, self.device


def products_over_scopes(names: Iterable[str], scopes: Iterable[str], values: Values) -> dict[str, float]:
    """Name of a constant -> the product of its values over the scopes. A scope without a value has the factor
    1.

    - values: ``<scope>.<name>`` -> value.
    """
    constants = {}
    for name in names:
        constants[name] = math.prod(values.get(f"{scope}.{name}", 1.0) for scope in scopes)
    return constants


def with_sources(constants: Mapping[str, tuple[float, str]]) -> dict[str, dict[str, Any]]:
    """The constants as a calibration file states them.

    - constants: name -> value and source.
    """
    return {name: {"value": value, "source": source} for name, (value, source) in constants.items()}
