"""The environment of a run: device, clocks, threads, libraries. No host name, no user, no path."""

import os
import platform
import re
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder import local_device
from perfmodel.validate.decoder.tuning import VARIABLE, tunings
from perfmodel.validate.records.code_version import run

VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_PROC_BIND",
    "KMP_AFFINITY",
    "ONEDNN_MAX_CPU_ISA",
    "CUDA_LAUNCH_BLOCKING",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TRITON_INTERPRET",
    "WORLD_SIZE",
)
"""The only environment variables in a record."""
QUERIED = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.limit",
    "temperature.gpu",
    "persistence_mode",
)
"""What `nvidia-smi` is asked about a device."""
DRIFTING = ("clocks", "temperature_c")
"""Facts of a device that change by themselves between two sittings of a run."""
ISA = ("amx_bf16", "amx_tile", "avx512_bf16", "avx512f", "avx2")
"""Instruction sets on which the speed of matrix products depends, as Linux names them."""


def device_of(kind: str) -> torch.device:
    """The device of a plan, this process's own under torchrun. Raises InputError if it is absent."""
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError("plan: device: must be cpu where torch sees no CUDA device, given 'cuda'")
    return local_device(kind)


def busy_share(
    seconds: float = 0.5,
    stat: Path = Path("/proc/stat"),
    sleep: Callable[[float], object] = time.sleep,
) -> float:
    """Share of all CPU time used in the next `seconds`, 0 to 1; 0 if the system does not report it."""
    idle_before, total_before = _jiffies(stat)
    sleep(seconds)
    idle, total = _jiffies(stat)
    if total > total_before:
        return 1.0 - (idle - idle_before) / (total - total_before)
    return 0.0


def _jiffies(stat: Path) -> tuple[int, int]:
    """CPU time so far of all processors: idle (including waits for disks), and in total."""
    text = stat.read_text(encoding="ascii") if stat.is_file() else ""
    jiffies = [int(value) for value in text.partition("\n")[0].split()[1:9]]
    return sum(jiffies[3:5]), sum(jiffies)


def capture(device: torch.device) -> dict[str, Any]:
    """Everything about the machine that a time may depend on."""
    machine: dict[str, Any] = {
        "device": _gpu(device) if device.type == "cuda" else describe_cpu(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": _libraries(),
    }
    machine["threads"] = torch.get_num_threads()
    machine["processors"] = len(os.sched_getaffinity(0))
    machine["memory_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machine["world_size"] = int(os.environ.get("WORLD_SIZE", "1"))
    if VARIABLE in os.environ:
        machine["attention_tuning"] = {str(rows): t.as_mapping() for rows, t in tunings().items()}
    machine["variables"] = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return machine


def _libraries() -> dict[str, str]:
    """Versions of the installed libraries that a time may depend on."""
    versions = {name: _version(name) for name in ("torch", "triton", "numpy", "flashinfer-python")}
    return {name: version for name, version in versions.items() if version}


def without_drift(environment: Any) -> dict[str, Any]:
    """The part that must be equal in all sittings of one run; empty for what is no environment."""
    device = environment.get("device") if isinstance(environment, dict) else None
    if not isinstance(device, dict):
        return {}
    steady = {key: value for key, value in device.items() if key not in DRIFTING}
    return {**environment, "device": steady}


def describe_cpu(root: Path = Path("/")) -> dict[str, Any]:
    """Name, instruction sets and largest cache of the host's CPU, as the system's files below `root` state
    them.
    """
    cpuinfo = _read(root / "proc/cpuinfo")
    flags = set(_first_value("flags", cpuinfo).split())
    bf16 = "emulated"
    if {"amx_bf16", "amx_tile"} <= flags:
        bf16 = "amx"
    elif "avx512_bf16" in flags:
        bf16 = "avx512"
    name = _first_value("model name", cpuinfo)
    return {
        "kind": "cpu",
        "name": name or platform.processor() or platform.machine(),
        "isa": [extension for extension in ISA if extension in flags],
        "bf16": bf16,
        "last_level_cache_bytes": last_level_cache(root),
    }


def _first_value(key: str, cpuinfo: str) -> str:
    """The value of a key for the first processor; empty if the system does not state it."""
    line = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.M)
    return line[1] if line else ""


def last_level_cache(root: Path = Path("/")) -> int | None:
    """Bytes of the largest cache of processor 0, as the system reports it (a guest may share it
    with others).
    """
    units = {"K": 2**10, "M": 2**20}
    sizes = []
    for path in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        size = re.fullmatch(r"(\d+)([KM])\n?", path.read_text())
        if size:
            sizes.append(int(size[1]) * units[size[2]])
    return max(sizes, default=None)


def _gpu(device: torch.device) -> dict[str, Any]:
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
    """The state of a CUDA device by `nvidia-smi`; empty where there is none."""
    query = f"--query-gpu={','.join(QUERIED)}"
    line = run("nvidia-smi", query, "--format=csv,noheader", "-i", str(device.index)) or ""
    values = [value.strip() for value in line.split(",")]
    return dict(zip(QUERIED, values, strict=False))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
