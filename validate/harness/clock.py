"""Clocks that measure seconds between two moments: a monotonic clock on a CPU, the thread's own CPU time for
work of one thread, and device events on CUDA.
"""

import gc
import itertools
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist

from perfmodel.validate.records.schema import THREAD_TIME

BUSY_CYCLES = 2_000_000
"""Cycles of busy work, which take about a millisecond on a GPU."""
EMPTY_LAPS = 2000
"""Number of empty laps whose mean is the clock's own time."""


class Clock:
    """`mark` records a moment. `laps` returns the seconds between the marks so far, and clears them. This
    class is for work that is complete when its call returns.

    - now_ns: the host's time in nanoseconds.
    """

    name = "perf_counter"

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Records a moment in the order of the device's work. The host does not wait."""
        self._marks.append(self._now_ns())

    def laps(self) -> list[float]:
        """Waits for the device, then returns the seconds between consecutive marks."""
        marks = self._marks
        self._marks = []
        return [(b - a) * 1e-9 for a, b in itertools.pairwise(marks)]


class ThreadClock(Clock):
    """The CPU time of the calling thread, which does not advance while other processes use the core. It is
    only for work of one thread.
    """

    name = THREAD_TIME

    def mark(self) -> None:
        self._marks.append(time.thread_time_ns())


class DeviceClock(Clock):
    """CUDA events on the current stream. A mark is the time at which the device reaches it."""

    name = "cuda_event"

    def mark(self) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def laps(self) -> list[float]:
        marks = self._marks
        self._marks = []
        marks[-1].synchronize()
        return [a.elapsed_time(b) * 1e-3 for a, b in itertools.pairwise(marks)]


def clock_for(device: torch.device) -> Clock:
    """The clock for a device. On a CPU, `ThreadClock` is used if torch has one thread and no other process
    shares the work. With several processes, a thread's CPU time would not include waiting for messages.
    """
    if device.type == "cuda":
        return DeviceClock()
    alone = torch.get_num_threads() == 1 and not dist.is_initialized()
    return ThreadClock() if alone else Clock()


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all earlier work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_memory(device: torch.device) -> None:
    """Frees memory that is no longer referenced. Raises RuntimeError if a failed capture has corrupted
    torch's allocator.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_usable(device: torch.device) -> bool:
    """Whether a device still works for this process after a failure."""
    try:
        synchronize(device)
        free_memory(device)
        return float(torch.ones(2, device=device).sum()) == 2.0
    except RuntimeError:
        return False


def keep_busy(device: torch.device) -> None:
    """Enqueues work on a device, so the next kernels do not wait for the host's launches."""
    if device.type == "cuda":
        torch.cuda._sleep(BUSY_CYCLES)


def overhead_s(clock: Clock) -> float:
    """The clock's own seconds per lap."""
    for _ in range(EMPTY_LAPS):
        clock.mark()
    return fmean(clock.laps())
