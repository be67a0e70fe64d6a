"""Fits constants to the calls of a kernel table, by robust least squares on the logarithms of times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec
from perfmodel.validate.solving import Parameter, Values, estimate

Constants = TypeVar("Constants")

WORST_MEDIAN = 0.25
"""Largest median error of a credible fit."""
LEAST_SHARE = 0.3
"""Smallest share of the bandwidth of a credible kernel."""
SOFT = 0.1
"""Log error above which a call counts linearly (soft L1)."""


@dataclass(frozen=True)
class TableFit(Generic[Constants]):
    """The fitted constants of one kind of kernel in one format.

    - median_error: the median absolute log error of times.
    - rows: the number of calls in the fit.
    - source: the engine and version of the table.
    """

    constants: Constants
    median_error: float
    rows: int
    source: str


@dataclass(frozen=True)
class MemoryConstants:
    """Constants of memory-bound kernels.

    - fixed_s: the fixed time of a call, in seconds.
    - bandwidth_fraction: the reached share of the memory bandwidth.
    """

    fixed_s: float
    bandwidth_fraction: float


@dataclass(frozen=True)
class RooflineConstants(MemoryConstants):
    """Constants of kernels whose time is bounded by memory or by arithmetic.

    - flops_fraction: the reached share of the peak FLOP/s.
    """

    flops_fraction: float


def table_fit(
    predict: Callable[[Values], Array],
    seconds: Array,
    first: Mapping[str, float],
    build: Callable[..., Constants],
    source: str,
) -> TableFit[Constants]:
    """The constants with which the predicted times are closest to the measured times.

    - predict: a function that returns the predicted seconds of the calls for constants by name, [rows].
    - seconds: the measured times of the calls, [rows].
    - first: name of a constant -> value at which the search begins.
    - build: a function that makes the result from the values of the constants.
    - source: see `TableFit`.
    """
    parameters = [Parameter(name, value, log=True) for name, value in first.items()]

    def residuals(values: Values) -> Array:
        return np.asarray(np.log(predict(values) / seconds))

    optimum = estimate(parameters, residuals, soft=SOFT)
    median_error = float(np.median(np.abs(optimum.solution.residuals)))
    return TableFit(build(**optimum.values), median_error, len(seconds), source)


def is_credible(fitted: TableFit[RooflineConstants]) -> bool:
    """Whether the fit is good enough to be used, and the kernel fast enough for an engine."""
    return fitted.median_error <= WORST_MEDIAN and fitted.constants.bandwidth_fraction >= LEAST_SHARE


def peak_of(gpu: GPUSpec, form: str) -> float | None:
    """The peak FLOP/s of a device with weights in a format; None if it is not published."""
    compute = WEIGHT_FORMATS[form].compute
    return gpu.peak_flops(compute) if compute in gpu.peak else None
