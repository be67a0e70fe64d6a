"""Fits constants to the rows of a kernel table, by robust least squares on the logs of times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec
from perfmodel.validate.solving import Parameter, Values, estimate

Constants = TypeVar("Constants")

WORST_MEDIAN = 0.25
"""Largest median error of a fit that is used."""
LEAST_SHARE = 0.3
"""Smallest share of the bandwidth of a kernel that is used."""


@dataclass(frozen=True)
class TableFit(Generic[Constants]):
    """The fitted constants of one kind of kernel in one format.

    - median_error: the median absolute log error of times.
    - rows: number of calls in the fit.
    - source: engine and version of the table.
    """

    constants: Constants
    median_error: float
    rows: int
    source: str


@dataclass(frozen=True)
class MemoryConstants:
    """Constants of memory-bound kernels.

    - fixed_s: fixed time of a call, in seconds.
    - bandwidth_fraction: share of the memory bandwidth.
    """

    fixed_s: float
    bandwidth_fraction: float


@dataclass(frozen=True)
class RooflineConstants(MemoryConstants):
    """Constants of kernels that memory or arithmetic bounds.

    - flops_fraction: share of the peak FLOP/s.
    """

    flops_fraction: float


def table_fit(
    predict: Callable[[Values], Array],
    seconds: Array,
    first: Mapping[str, float],
    build: Callable[..., Constants],
    source: str,
) -> TableFit[Constants]:
    """The constants with which log(predict(values)) is closest to log(seconds).

    - seconds [rows]: the times of the calls.
    - first: name -> value at which the search starts.
    - build: makes the constants from their values, given by name.
    """
    parameters = [Parameter(name, value, log=True) for name, value in first.items()]

    def residuals(values: Values) -> Array:
        return np.asarray(np.log(predict(values) / seconds))

    optimum = estimate(parameters, residuals, soft=0.1)
    median_error = float(np.median(np.abs(optimum.solution.residuals)))
    return TableFit(build(**optimum.values), median_error, len(seconds), source)


def is_credible(fitted: TableFit[RooflineConstants]) -> bool:
    """Whether a kernel with these constants is plausible for an engine."""
    return fitted.median_error <= WORST_MEDIAN and fitted.constants.bandwidth_fraction >= LEAST_SHARE


def peak_of(gpu: GPUSpec, form: str) -> float | None:
    """The peak FLOP/s of a device with weights in a format; None if it is not published."""
    compute = WEIGHT_FORMATS[form].compute
    return gpu.peak_flops(compute) if compute in gpu.peak else None
