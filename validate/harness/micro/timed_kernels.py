"""The timed kernels of a record, as arrays of sizes and seconds for the fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import GPUSpec, Precision
from perfmodel.validate.records import THREAD_TIME, KernelRow, Plan, Record
from perfmodel.validate.records.schema import RecordedPlan
from perfmodel.validate.solving import grouped

LOWER_QUARTILE = 0.25
"""Quantile of the samples that is the time of a kernel by a thread's CPU time."""
WithErrors = dict[str, tuple[float, float]]
"""Constant -> its value and standard error."""


@dataclass(frozen=True)
class TimedKernels:
    """The timed kernels of a record by kind.

    - gpu: the device to whose peaks the fitted fractions refer.
    """

    record: Record
    gpu: GPUSpec
    by_kind: dict[str, list[KernelRow]]

    @property
    def plan(self) -> RecordedPlan:
        """The plan that was timed, with the shapes of its models."""
        return self.record.data.plan

    @property
    def precision(self) -> Precision:
        """Formats of weights, activations and the cache."""
        return self.plan.precisions()

    @property
    def bandwidth(self) -> float:
        """The memory bandwidth that the vendor states, in bytes per second."""
        return self.gpu.memory_bandwidth_bytes_per_s

    @property
    def peak(self) -> float:
        """The peak that the vendor states for products with these weights, in FLOP/s."""
        return self.gpu.peak_flops(self.precision.weights.base.compute)


def timed_kernels(record: Record, gpu: GPUSpec) -> TimedKernels:
    """The kernels of a record, without duplicates. If a thread's CPU time was measured, the time of a kernel
    is its lower quartile.
    """
    rows = pooled(record.kernels)
    if record.data.protocol.timer == THREAD_TIME:
        rows = [undisturbed(row) for row in rows]
    return TimedKernels(record, gpu, grouped(rows, lambda row: row.kind))


def most_rows(plan: Plan) -> int:
    """Largest number of rows of a matrix product in any pass of a plan."""
    return max(point.batch * point.queries[-1] for point in plan.points())


def pooled(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """The timed kernels without duplicates, each with the samples of all sweeps."""
    timed = (row for row in rows if row.status == "ok")
    by_kernel = grouped(timed, lambda row: (row.kind, *row.at.items()))
    return [_of_all_sweeps(sweeps) for sweeps in by_kernel.values()]


def _of_all_sweeps(sweeps: Sequence[KernelRow]) -> KernelRow:
    """A kernel with the samples of all its rows."""
    samples = [seconds for row in sweeps for seconds in row.samples["call_s"]]
    return sweeps[0].replace(samples={"call_s": tuple(samples)})


def undisturbed(row: KernelRow) -> KernelRow:
    """The kernel with the lower quartile of its samples as its only sample. Another process can only make a
    thread's CPU time longer, because it empties the caches.
    """
    lower = float(np.quantile(row.samples["call_s"], LOWER_QUARTILE))
    return row.replace(samples={"call_s": (lower,)})


def sizes(rows: Sequence[KernelRow], name: str) -> Array:
    """One size of each kernel, ``[kernel]``."""
    return np.array([row.at[name] for row in rows], float)


def seconds_of(rows: Sequence[KernelRow]) -> Array:
    """Seconds of each kernel's call, ``[kernel]``."""
    return np.array([row.call_s for row in rows])
