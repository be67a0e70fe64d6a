"""Allocates memory for caches, and raises InputError if the memory does not suffice."""

import math
import os
from pathlib import Path

import torch

from perfmodel.errors import InputError

REMEDY = "lower batch, context or new tokens"
"""The advice of the error about a cache."""


def allocate(what: str, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of zeros. Raises InputError if memory does not suffice.

    - what: the name of the tensor in this error.
    """
    need_bytes = math.prod(shape) * dtype.itemsize
    check_fits(what, need_bytes, device)
    try:
        return torch.zeros(shape, dtype=dtype, device=device)
    except (torch.OutOfMemoryError, MemoryError):
        raise _too_large(what, need_bytes, device, REMEDY) from None


def check_fits(what: str, need_bytes: float, device: torch.device, remedy: str = REMEDY) -> None:
    """Raises InputError if the free memory of a CPU is smaller than `need_bytes`. On a CPU, such an
    allocation would succeed at first, and the process would fail later.

    - what: the name of the allocation in the error.
    - remedy: the advice of the error.
    """
    if device.type == "cpu" and need_bytes > _free_bytes(device):
        raise _too_large(what, need_bytes, device, remedy)


def _too_large(what: str, need_bytes: float, device: torch.device, remedy: str) -> InputError:
    free_gb = _free_bytes(device) / 1e9
    return InputError(
        f"{what}: must fit in the {free_gb:.1f} GB free on {device}, needs {need_bytes / 1e9:.1f} GB: "
        f"{remedy}"
    )


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_host_bytes()


def free_host_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """The bytes of host memory that are available without swapping, including file caches. If the system does
    not report this number, the function returns the bytes of free pages.
    """
    if meminfo.is_file():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        if "MemAvailable" in fields:
            return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
