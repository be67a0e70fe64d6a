"""Facts about a CUDA device, from torch and from its driver."""

from typing import Any

import torch

from perfmodel.validate.records.code_version import run

QUERIED = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.limit",
    "temperature.gpu",
    "persistence_mode",
)
"""The values that `nvidia-smi` is asked for."""


def describe_gpu(device: torch.device) -> dict[str, Any]:
    """Name, size and versions of a device, and its state from `nvidia-smi`. Clocks and temperature have
    separate keys, because they drift.
    """
    properties = torch.cuda.get_device_properties(device)
    nccl = None
    if torch.distributed.is_nccl_available():
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
    facts: dict[str, Any] = {
        "kind": "cuda",
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "last_level_cache_bytes": getattr(properties, "L2_cache_size", None),
        "cuda": torch.version.cuda,
        "nccl": nccl,
    }
    state = _nvidia_smi(device)
    temperature = state.pop("temperature.gpu", None)
    clocks = {key: state.pop(key) for key in ("clocks.sm", "clocks.mem") if key in state}
    return {**facts, **state, "clocks": clocks, "temperature_c": temperature}


def _nvidia_smi(device: torch.device) -> dict[str, str]:
    """The state of a CUDA device, as `nvidia-smi` prints it; empty if there is no `nvidia-smi`."""
    query = f"--query-gpu={','.join(QUERIED)}"
    line = run("nvidia-smi", query, "--format=csv,noheader", "-i", str(device.index)) or ""
    values = [value.strip() for value in line.split(",")]
    return dict(zip(QUERIED, values, strict=False))
