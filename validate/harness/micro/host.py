"""Makes the device file of a CPU from its microbenchmark. Bandwidth and peak are the best values over all
kernels.
"""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs import GPUSpec, files
from perfmodel.validate.harness.micro.timed_kernels import pooled
from perfmodel.validate.records import KernelRow, Record
from perfmodel.validate.solving import significant

LARGE_BYTES = 2**27
"""Smallest working set, in bytes, of a kernel that counts for the bandwidth."""
MOVING = ("copy", "read", "gemm")
"""Kinds of kernels whose speed shows the bandwidth."""


def host_spec(record: Record, name: str, calibration: str | None = None) -> GPUSpec:
    """A device file for the CPU of a record. Raises InputError for another device.

    - calibration: the calibration that the file names, by name or as a file next to it; by default
      ``<name>.micro``.

    Bandwidth and peak are the best values over all kernels, so no measured time is below its physical bound.
    """
    environment = record.data.environment
    plan = record.data.plan
    device = environment.device
    if device.kind != "cpu":
        raise InputError(
            f"{record.path}: must be of a CPU (data of a GPU come from its vendor), given {device.kind}"
        )
    rows = pooled(record.kernels)
    gemms = [row for row in rows if row.kind == "gemm"]
    large = [row for row in rows if row.kind in MOVING and row.working_set_bytes >= LARGE_BYTES]
    value_bytes = plan.precisions().weights.base.bytes_per_value
    bandwidth = max((_moved_bytes(row, value_bytes) / row.best_s for row in large), default=0.0)
    flops = max((_gemm_flops(row) / row.best_s for row in gemms), default=0.0)
    if not bandwidth or not flops:
        raise InputError(f"{record.path}: must hold copy, read and gemm kernels to describe a CPU")
    dtype = "bf16" if plan.precision.activations in ("bf16", "fp16") else "fp32"
    command = f"perfmodel validate microbench {plan.name} (results/{record.name}.json)"
    model_name = device.name.replace("(R)", "")
    maker = device.name.split("(")[0].split()[0]
    architecture = "x86" if "x86" in environment.system else environment.system
    memory = _quantity(environment.memory_bytes / 1e9, "GB", "what the system reports")
    bandwidth_gb = _quantity(bandwidth / 1e9, "GB/s", f"best copy, read or GEMM: {command}")
    peak = _quantity(flops / 1e9, "GFLOP/s", f"best GEMM: {command}")
    facts: dict[str, Any] = {
        "name": name,
        "title": f"{model_name}, {environment.threads} threads",
        "vendor": maker,
        "architecture": architecture,
        "kind": "cpu",
        "calibration": calibration or f"{name}.micro",
        "memory": memory,
        "memory_bandwidth": bandwidth_gb,
        "peak": {dtype: peak},
        "multiprocessors": _quantity(environment.threads, "count", "threads in use"),
        "notes": _notes(device.bf16),
    }
    if device.last_level_cache_bytes:
        cache_mib = device.last_level_cache_bytes / 2**20
        source = "as the system reports it, for the whole socket"
        facts["last_level_cache"] = _quantity(cache_mib, "MiB", source)
    return files.parse(GPUSpec, facts, str(record.path))


def _notes(bf16: str | None) -> str:
    """The notes of a CPU with this kind of bf16 arithmetic."""
    how = {"amx": "bf16 uses AMX. ", "avx512": "bf16 uses AVX-512. ", "emulated": "bf16 is emulated. "}
    shared = "The caches are those of the socket, which a virtual machine shares with others."
    return how.get(bf16 or "", "") + shared


def _moved_bytes(row: KernelRow, value_bytes: float) -> float:
    """The fewest bytes that a copy, a read or a GEMM moves. For a GEMM, these are the bytes of its
    weights.
    """
    return row.at.get("bytes") or value_bytes * row.at["n"] * row.at["k"]


def _gemm_flops(row: KernelRow) -> float:
    return 2.0 * row.at["n"] * row.at["k"] * row.at["m"]


def _quantity(value: float, unit: str, source: str) -> dict[str, Any]:
    return {"value": significant(value, 4), "unit": unit, "source": source, "evidence": "measured"}
