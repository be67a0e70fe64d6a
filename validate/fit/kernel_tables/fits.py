"""A fit to the rows of a kernel table: robust least squares on the logarithms of times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec
from perfmodel.validate.solving import Parameter, Values, estimate

Constants = TypeVar("Constants")

WORST_MEDIAN = 0.25
"""Largest median error of the fit of a kernel that an engine would choose."""
LEAST_SHARE = 0.3
"""Least share of the bandwidth of a kernel that an engine would choose."""


@dataclass(frozen=True)
class TableFit(Generic[Constants]):
    """Constants of one kind of kernel in one format.

    median_error: of the logarithm of times. rows: number of calls that count. source: engine and version.
    """

    constants: Constants
    median_error: float
    rows: int
    source: str


@dataclass(frozen=True)
class MemoryConstants:
    """Constants of kernels that loading bounds: seconds of the start, share of the bandwidth."""

    fixed_s: float
    bandwidth_fraction: float


@dataclass(frozen=True)
class RooflineConstants(MemoryConstants):
    """Constants of kernels that loading and computing bound. flops_fraction: share of the peak."""

    flops_fraction: float


def table_fit(
    predict: Callable[[Values], Array],
    seconds: Array,
    first: Mapping[str, float],
    build: Callable[..., Constants],
    source: str,
) -> TableFit[Constants]:
    """The constants for which `predict` is closest to `seconds` [rows], both as logarithms.

    first: name -> value at which the search starts. build: makes the constants from their values by name.
    """
    parameters = [Parameter(name, value, log=True) for name, value in first.items()]

    def residuals(values: Values) -> Array:
        return np.asarray(np.log(predict(values) / seconds))

    optimum = estimate(parameters, residuals, soft=0.1)
    median_error = float(np.median(np.abs(optimum.solution.residuals)))
    return TableFit(build(**optimum.values), median_error, len(seconds), source)


def is_credible(fitted: TableFit[RooflineConstants]) -> bool:
    """Whether an engine would choose a kernel with these constants."""
    return fitted.median_error <= WORST_MEDIAN and fitted.constants.bandwidth_fraction >= LEAST_SHARE


def peak_of(gpu: GPUSpec, form: str) -> float | None:
    """FLOP/s with weights in a format; None without a published peak."""
    compute = WEIGHT_FORMATS[form].compute
    return gpu.peak_flops(compute) if compute in gpu.peak else None
