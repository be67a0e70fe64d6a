"""The environment of a run: device, clocks, threads and libraries. It has no host name, user name or path."""

import os
import platform
from importlib import metadata
from typing import Any

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder import local_device
from perfmodel.validate.decoder.tuning import VARIABLE, tunings
from perfmodel.validate.harness.gpu_facts import describe_gpu
from perfmodel.validate.harness.host_cpu import describe_cpu

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
"""The environment variables that a record contains. It contains no others."""
DRIFTING = ("clocks", "temperature_c")
"""Facts of a device that change by themselves between two sessions of a run."""


def device_of(kind: str) -> torch.device:
    """The device of a plan. Under torchrun, it is the device of this process. Raises InputError if it does
    not exist.
    """
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError("plan: device: must be cpu where torch sees no CUDA device, given 'cuda'")
    return local_device(kind)


def capture(device: torch.device) -> dict[str, Any]:
    """Everything about the machine on which a time can depend."""
    machine: dict[str, Any] = {
        "device": describe_gpu(device) if device.type == "cuda" else describe_cpu(),
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
    """Versions of the installed libraries on which a time can depend."""
    versions = {name: _version(name) for name in ("torch", "triton", "numpy", "flashinfer-python")}
    return {name: version for name, version in versions.items() if version}


def without_drift(environment: Any) -> dict[str, Any]:
    """The part of an environment that must be equal in all sessions of a run; empty if `environment` is not
    an environment.
    """
    device = environment.get("device") if isinstance(environment, dict) else None
    if not isinstance(device, dict):
        return {}
    steady = {key: value for key, value in device.items() if key not in DRIFTING}
    return {**environment, "device": steady}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
