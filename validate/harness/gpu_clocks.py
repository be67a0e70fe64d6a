"""Records the clocks of a CUDA device during a measurement, as `nvidia-smi` prints them."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import torch

WATCH_MS = 250
"""Milliseconds between samples of a device's clocks."""
THROTTLED = 0xFFFFFFFFFFFFFFFE
"""A mask of NVML's reasons for a lower clock, without idleness (nvmlClocksEventReasonGpuIdle is the lowest
bit).
"""


@contextmanager
def watched(device: torch.device) -> Iterator[dict[str, Any]]:
    """A context that yields a mapping. When the context ends, the mapping has the ``clocks`` of a row: the
    lowest clocks and the highest temperature that `nvidia-smi` sampled during the work inside.
    """
    clocks: dict[str, Any] = {}
    monitor = _monitor(device) if device.type == "cuda" else None
    try:
        yield clocks
    finally:
        if monitor is not None:
            monitor.terminate()
            printed, _ = monitor.communicate()
            clocks |= _clocks(printed)


def _monitor(device: torch.device) -> "subprocess.Popen[str] | None":
    """A process that prints the clocks of a CUDA device; None if there is no `nvidia-smi`."""
    command = [
        "nvidia-smi",
        "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,clocks_throttle_reasons.active",
        "--format=csv,noheader,nounits",
        f"--loop-ms={WATCH_MS}",
        "-i",
        str(device.index or 0),
    ]
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def _clocks(printed: str) -> dict[str, Any]:
    """The lowest clocks and the highest temperature in the complete lines; empty if no line is complete."""
    lines = re.findall(r"^(\d+), (\d+), (\d+), 0x([0-9a-fA-F]+)$", printed, re.M)
    if not lines:
        return {}
    sm_mhz, memory_mhz, temperature_c, reasons = zip(*lines, strict=True)
    all_reasons = reduce(or_, (int(reason, 16) for reason in reasons))
    clocks: dict[str, Any] = {}
    clocks["sm_mhz"] = min(map(int, sm_mhz))
    clocks["mem_mhz"] = min(map(int, memory_mhz))
    clocks["temperature_c"] = max(map(int, temperature_c))
    clocks["throttle"] = hex(all_reasons & THROTTLED)
    return {"clocks": clocks}
