"""Fits a calibration to the times of single kernels only, without whole passes.

Every constant is one that `perfmodel.costs.roofline.Machine` uses. It is fitted to the kernels that it
describes.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs import CONSTANTS, Calibration, GPUSpec, files, load_gpu
from perfmodel.validate.harness.micro.linear_fit import (
    host_times,
    iteration_times,
    search_times,
    small_kernels,
)
from perfmodel.validate.harness.micro.roofline_fit import Fitted, attention, linear_ops
from perfmodel.validate.harness.micro.timed_kernels import TimedKernels, timed_kernels
from perfmodel.validate.records import THREAD_TIME, Record
from perfmodel.validate.solving import significant

NEEDED_KINDS = ("gemm", "attention", "rope", "shell", "bare", "loop", "sampling")
"""Kinds of kernels that a record must have for a calibration."""
LEAST_KNOTS = 2
"""Smallest number of timed messages for a curve, because a single message determines nothing."""
FAR_KERNELS = 0.25
"""Log rms error of kernels above which the device file is probably that of another device."""
LEAST_FRACTION = 0.0105
"""Share of the bandwidth below which the device file is probably that of another device."""


def calibration_from(record: Record, gpu: GPUSpec | None = None, name: str | None = None) -> Calibration:
    """Fits a calibration to a microbenchmark record. Raises InputError if a kind of kernel is missing.

    - gpu: the device; by default that of the record.
    - name: the name of the calibration; by default ``<device>.micro``.
    """
    gpu = gpu or load_gpu(record.hardware)
    kernels = timed_kernels(record, gpu)
    missing = [kind for kind in NEEDED_KINDS if kind not in kernels.by_kind]
    if missing:
        raise InputError(f"--from-microbench: {record.path} must hold kernels of kind {', '.join(missing)}")
    products = linear_ops(kernels)
    attended = attention(kernels, products.constants["gemm_flops_fraction"])
    by_kind = {"gemm": products, "attention": attended}
    constants = products.constants | attended.constants
    constants |= small_kernels(kernels) | host_times(kernels) | iteration_times(kernels)
    launch_s, _ = constants["attention_fixed_s"]
    constants |= search_times(kernels, launch_s)
    fields = _header(record, gpu, name or f"{gpu.name}.micro", by_kind)
    curve = _allreduce(kernels)
    if curve:
        fields["allreduce"] = curve
    sources = products.sources | attended.sources
    for constant, (value, error) in constants.items():
        fields[constant] = {
            "value": significant(value, 4),
            "stderr": _stated_error(constant, error),
            "source": sources.get(constant, _source_of(record)),
        }
    return files.parse(Calibration, fields, str(record.path))


def _header(record: Record, gpu: GPUSpec, name: str, by_kind: Mapping[str, Fitted]) -> dict[str, Any]:
    """The fields of a calibration other than its constants.

    - by_kind: the fits of kernels, with their errors.
    """
    statistic = "lower quartiles" if record.data.protocol.timer == THREAD_TIME else "median samples"
    errors = ", ".join(f"{kind} {fitted.rms:.1%}" for kind, fitted in by_kind.items())
    notes = f"From kernels alone ({statistic}), no whole pass. Kernels: {errors} rms."
    libraries = record.data.environment.libraries
    day = record.path.name[:8]
    return {
        "name": name,
        "gpu": gpu.name,
        "stack": f"perfmodel validate, torch {libraries.get('torch', '?')}",
        "kind": "fitted",
        "fitted_on": (record.name,),
        "date": datetime.datetime.strptime(day, "%Y%m%d").date(),
        "notes": notes + _doubts(gpu, by_kind),
        "allreduce_multiplier": {"value": 1.0, "source": "the curve as measured"},
    }


def _doubts(gpu: GPUSpec, by_kind: Mapping[str, Fitted]) -> str:
    """A warning about kernels that no efficiency of this device explains."""
    doubted = []
    for kind, fitted in by_kind.items():
        fraction, _ = fitted.constants[f"{kind}_bandwidth_fraction"]
        is_at_end = not LEAST_FRACTION < fraction < 0.999
        if fitted.rms > FAR_KERNELS and is_at_end:
            doubted.append(kind)
    if not doubted:
        return ""
    return f" WARNING: no efficiency of {gpu.name} explains its {' and '.join(doubted)} times."


def _allreduce(kernels: TimedKernels) -> dict[str, Any] | None:
    """The measured curve, for the measured number of ranks; None if too few messages were timed."""
    rows = sorted(kernels.by_kind.get("allreduce", []), key=lambda row: row.at["bytes"])
    if len(rows) < LEAST_KNOTS:
        return None
    ranks = kernels.record.data.environment.world_size
    knots = {ranks: [(row.at["bytes"], row.call_s) for row in rows]}
    return {"knots": knots, "source": _source_of(kernels.record)}


def _stated_error(name: str, error: float) -> float:
    """A standard error, limited to the largest error that a file can state for a constant."""
    widest = CONSTANTS[name].widest
    return significant(error, 4) if error <= widest else widest


def _source_of(record: Record) -> str:
    return f"results/{record.data.machine}/{record.path.name}"
