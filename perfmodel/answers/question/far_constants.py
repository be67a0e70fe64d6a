"""Finds constants of a user's own calibration that are far from those of all bundled calibrations."""

from collections.abc import Iterator

from perfmodel.specs import CONSTANTS, Calibration, files
from perfmodel.specs.calibrations.loading import load_bundled

FAR = 30.0
"""Factor above the largest, or below the smallest, constant of all bundled calibrations from which a warning
is given. Devices differ by less.
"""


def far_constants(calibration: Calibration) -> Iterator[str]:
    """A warning for each value of a calibration that differs from all bundled values by more than the
    factor `FAR`.

    Only fractions can be too small, because times and exponents may be near 0. Exponents cannot be too
    large either.
    """
    bundled = [load_bundled(name) for name in files.bundled_names("calibrations") if name != "ideal"]
    for name, constant in CONSTANTS.items():
        stating = [each for each in bundled if name not in each.absent]
        known = [value for each in stating for value in getattr(each, name).numbers()]
        if not known or name in calibration.absent:
            continue
        least = min(known)
        most = max(known)
        for value in getattr(calibration, name).numbers():
            too_large = constant.unit != "power" and value > most * FAR
            too_small = constant.unit == "fraction" and value < least / FAR
            if too_large or too_small:
                yield (
                    f"calibration {calibration.name}: {name} is {value:.3g}; in bundled calibrations it is "
                    f"{least:.3g} to {most:.3g}"
                )
