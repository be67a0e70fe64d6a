"""Fits stack factors, which scale kernel constants to whole passes. The errors are those on one half of a
record with factors that were fitted to the other half.

Each factor scales all constants of one kind of work. There are only four factors, because a record of a few
dozen points cannot determine more.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.errors import InputError
from perfmodel.operations import Mask
from perfmodel.specs import CONSTANTS, Calibration, Work
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation import with_values
from perfmodel.validate.fit.counted_points import TIMES, Array, PointSet
from perfmodel.validate.fit.errors import Errors, errors_by_quantity
from perfmodel.validate.fit.fitting import SOFT, weighted_residuals
from perfmodel.validate.fit.folds import folds_of
from perfmodel.validate.solving import Parameter, Values, estimate

KINDS: dict[str, tuple[Work, ...]] = {
    "linear ops": ("linear",),
    "attention": ("attention",),
    "rest of a pass": ("small", "pass"),
    "outside the passes": ("iteration",),
}
"""Factor -> the kinds of work whose constants it scales. A factor multiplies times and divides efficiencies,
which stay at most 1.
"""
LOW = 0.25
HIGH = 4.0
"""Bounds of a factor."""


@dataclass(frozen=True)
class StackFit:
    """The stack factors, fitted to all points.

    - calibration: the scaled calibration.
    - held_out: the errors of each half with factors that were fitted to the other half.
    """

    factors: dict[str, float]
    calibration: Calibration
    held_out: dict[str, Errors]


def scaled(kernels: Calibration, factors: dict[str, float]) -> Calibration:
    """The calibration with all constants scaled by the factors of their kinds of work."""
    values: dict[str, float] = {}
    for kind, factor in factors.items():
        for name, declared in CONSTANTS.items():
            if declared.work not in KINDS[kind] or name in kernels.absent:
                continue
            if declared.unit == "s":
                values[name] = getattr(kernels, name).value * factor
            elif declared.unit == "fraction":
                values[name] = min(getattr(kernels, name).value / factor, 1.0)
    return with_values(kernels, values)


def fit_factors(points: PointSet, kernels: Calibration, train: Mask) -> dict[str, float]:
    """The factors with the smallest log errors on the points in the mask `train`. Times that are predicted to
    be 0, such as the overhead with the calibration ``ideal``, are left out.
    """
    logs = {name: np.log(points.measured(name)) for name in TIMES}
    plain = points.predict(kernels)
    rows = {name: train & ~np.isnan(logs[name]) & (plain[name] > 0) for name in TIMES}

    def residuals(factors: Values) -> Array:
        times = points.predict(scaled(kernels, dict(factors)))
        return weighted_residuals(times, logs, rows)

    parameters = [Parameter(kind, 1.0, LOW, HIGH, log=True) for kind in KINDS]
    return estimate(parameters, residuals, soft=SOFT).values


def fit_stack(measured: tuple[MeasuredPoint, ...], kernels: Calibration, where: str = "--stack") -> StackFit:
    """Fits the factors to all points, and to each half of the points for the errors. Points that share a
    baseline time are in the same half.

    - where: the beginning of an error message.

    Raises InputError if all points share one baseline time, or if no pass was timed.
    """
    folds = folds_of(measured, "point")
    if not folds.any():
        raise InputError(
            f"{where}: must hold points of two batches or contexts, so that one half can judge the other"
        )
    if not any(p.target_s or p.verify_s or p.draft_s for p in measured):
        raise InputError(f"{where}: must hold passes that were timed alone (a plan with the mode phases)")
    points = PointSet(measured, kernels)
    odd = (folds % 2).astype(bool)
    from_even = points.predict(scaled(kernels, fit_factors(points, kernels, ~odd)))
    from_odd = points.predict(scaled(kernels, fit_factors(points, kernels, odd)))
    held_out = {name: np.where(odd, from_even[name], from_odd[name]) for name in TIMES}
    factors = fit_factors(points, kernels, np.ones(len(measured), dtype=bool))
    return StackFit(factors, scaled(kernels, factors), errors_by_quantity(points, held_out))


def with_stack(
    measured: tuple[MeasuredPoint, ...], kernels: Calibration, name: str, where: str = "--stack"
) -> Calibration:
    """The calibration `name`: the kernel constants, scaled by fitted stack factors. The observed errors are
    those of `StackFit.held_out`. Raises InputError for the reasons of `fit_stack`.
    """
    stack = fit_stack(measured, kernels, where)
    set_name = measured[0].set_name
    factors = ", ".join(f"{kind} {factor:.3g}" for kind, factor in stack.factors.items())
    source = f"{set_name}, fitted on the other half"
    observed = {figure: errors.scatter(source) for figure, errors in stack.held_out.items()}
    return stack.calibration.replace(
        name=name,
        fitted_on=(*kernels.fitted_on, set_name),
        notes=f"{kernels.notes} Scaled to whole passes of {set_name}: {factors}.",
        observed_error=observed,
    )
