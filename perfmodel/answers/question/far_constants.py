"""Finds constants of a user's calibration that are far from those of all bundled calibrations."""

from collections.abc import Iterator
from functools import cache

from perfmodel.specs import CONSTANTS, Calibration, files
from perfmodel.specs.calibrations.loading import load_bundled

FAR = 30.0
"""A warning is given for a constant that is larger than the largest bundled constant, or smaller than the
smallest, by more than this factor. Bundled devices differ by less than this factor.
"""


def far_constants(calibration: Calibration) -> Iterator[str]:
    """A warning for each value of a calibration that is outside the range of the bundled values by more than
    the factor `FAR`.

    Only fractions get a warning about too small a value, because times and exponents may be near zero.
    Exponents get no warning about too large a value either.
    """
    absent = calibration.absent
    for name, (least, most) in _bundled_ranges().items():
        if name in absent:
            continue
        constant = CONSTANTS[name]
        for value in getattr(calibration, name).numbers():
            too_large = constant.unit != "power" and value > most * FAR
            too_small = constant.unit == "fraction" and value < least / FAR
            if too_large or too_small:
                yield (
                    f"calibration {calibration.name}: {name} is {value:.3g}; in bundled calibrations it is "
                    f"{least:.3g} to {most:.3g}"
                )


@cache
def _bundled_ranges() -> dict[str, tuple[float, float]]:
    """Name of each constant -> its smallest and its largest value in all bundled calibrations."""
    values: dict[str, list[float]] = {name: [] for name in CONSTANTS}
    for file in files.bundled_names("calibrations"):
        if file != "ideal":
            calibration = load_bundled(file)
            absent = calibration.absent
            for name, known in values.items():
                known += () if name in absent else getattr(calibration, name).numbers()
    return {name: (min(known), max(known)) for name, known in values.items() if known}
