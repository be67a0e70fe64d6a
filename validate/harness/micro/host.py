"""The facts of a CPU that no vendor publishes, from its own microbenchmarks, each with its command."""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs.boundary import files
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.validate.records.store import Record
from perfmodel.validate.solving import significant

LARGE_BYTES = 2**27
"""Least bytes between two touches of the same data in a kernel that counts for the bandwidth."""
MOVING = ("copy", "read", "gemm")


def host_spec(record: Record, name: str, calibration: str | None = None) -> GPUSpec:
    """A device file for the CPU of a record. Raises InputError for another device.

    calibration: the one that the file names, by name or as a file next to it [``<name>.micro``].

    Bandwidth and peak are the best over all kernels, so no measured time is below its bound.
    """
    environment, plan = record.data.environment, record.data.plan
    device = environment.device
    if device.kind != "cpu":
        raise InputError(
            f"{record.path}: must be of a CPU (a GPU's facts are its vendor's), given {device.kind}"
        )
    rows = [row for row in record.kernels if row.status == "ok"]
    gemms = [row for row in rows if row.kind == "gemm"]
    large = (row for row in rows if row.kind in MOVING and row.working_set_bytes >= LARGE_BYTES)
    size = plan.precisions().weights.base.bytes_per_value
    bandwidth = max((_moved(row.at, size) / row.best_s for row in large), default=0.0)
    flops = max((2.0 * row.at["n"] * row.at["k"] * row.at["m"] / row.best_s for row in gemms), default=0.0)
    if not bandwidth or not flops:
        raise InputError(f"{record.path}: must hold copy, read and gemm kernels to describe a CPU")
    command = f"perfmodel validate microbench {plan.name} (results/{record.name}.json)"
    facts: dict[str, Any] = {
        "name": name,
        "title": f"{device.name.replace('(R)', '')}, {environment.threads} threads",
        "vendor": device.name.split("(")[0].split()[0],
        "architecture": "x86" if "x86" in environment.system else environment.system,
        "kind": "cpu",
        "calibration": calibration or f"{name}.micro",
        "memory": _quantity(environment.memory_bytes / 1e9, "GB", "what the system reports"),
        "memory_bandwidth": _quantity(bandwidth / 1e9, "GB/s", f"best copy, read or GEMM: {command}"),
        "peak": {
            "bf16" if plan.precision.activations in ("bf16", "fp16") else "fp32": _quantity(
                flops / 1e9, "GFLOP/s", f"best GEMM: {command}"
            )
        },
        "multiprocessors": _quantity(environment.threads, "count", "threads in use"),
        "notes": f"bf16: {device.bf16}. Measured in a guest that shares its socket; caches are the socket's.",
    }
    if device.last_level_cache_bytes:
        size = device.last_level_cache_bytes / 2**20
        facts["last_level_cache"] = _quantity(
            size, "MiB", "what the system reports; shared with other guests"
        )
    return files.parse(GPUSpec, facts, str(record.path))


def _moved(at: dict[str, Any], bytes_per_value: float) -> float:
    """Least bytes that a kernel moves."""
    return float(at["bytes"] if "bytes" in at else bytes_per_value * at["n"] * at["k"])


def _quantity(value: float, unit: str, source: str) -> dict[str, Any]:
    return {"value": significant(value, 4), "unit": unit, "source": source, "evidence": "measured"}
