"""Times every kernel of a plan and writes a record of the kind ``microbench``."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder import RankShard, captured
from perfmodel.validate.harness.clock import Clock, clock_for, synchronize
from perfmodel.validate.harness.micro.jobs import SMALL, Job, jobs
from perfmodel.validate.harness.micro.kernels import Kernel, KernelMaker
from perfmodel.validate.harness.point_runner import DTYPES
from perfmodel.validate.harness.session import Row, Rows, RowsToMeasure, failure, run_rows
from perfmodel.validate.records import MIN_SAMPLES, RESULTS, Plan

Replay = Callable[[], Any]
"""Replays a CUDA graph."""
STRETCH_S = 4e-3
"""Duration, in seconds, of a series of calls that is timed together. It makes the clock's own time
negligible.
"""
SPACER_STRETCHES = 3
"""Number of timed series of the spacer alone. Other work can only make a series longer, so the fastest is
subtracted. The number is a choice.
"""
LEAST_S = 1e-9
"""Smallest time of a call, in seconds, used if the clock shows 0."""
MIN_SHARE = 0.01
"""Smallest share of the time that remains after the spacer's time is subtracted, because another process may
have slowed the spacer.
"""
LONG_S = 0.25
"""Smallest duration, in seconds, of a first call after which the kernel is not warmed up again. A series of
such calls has one call. The value is a choice: it is 60 times `STRETCH_S`.
"""
CAPTURED = ("gemm", "attention", *SMALL, "sampling", "search", "bare")
"""Kinds of kernels that are timed inside a CUDA graph, without the host's launches, as a pass replays them. A
nearly empty pass (``shell``) is captured if the plan captures its passes. Of the other kinds, ``loop`` times
the host's work too, and ``copy``, ``read`` and ``allreduce`` are called.
"""


def run_micro(
    plan: Plan,
    machine: str,
    *,
    resume: bool = False,
    results: Path = RESULTS,
    only: tuple[str, ...] = (),
    deadline: float = math.inf,
) -> Path | None:
    """Times the kernels of a plan and writes the record; see `run_rows`.

    - only: the kinds of kernels; all by default.
    """
    wanted = [job for job in jobs(plan) if not only or job.kind in only]
    if not wanted:
        raise InputError(f"--only: must be kinds of kernels of the plan, given {', '.join(only)}")

    def rows(device: torch.device, shard: RankShard) -> Rows:
        maker = KernelMaker(plan, device, DTYPES[plan.precision.activations])
        clock = clock_for(device)
        timed = partial(time_job, maker, clock=clock, device=device, shard=shard, samples=samples)
        return [(key, partial(timed, job)) for key, job in swept(wanted, sweeps)]

    sweeps = plan.micro.sweeps
    samples = math.ceil(MIN_SAMPLES / sweeps)
    protocol = {
        "samples": samples,
        "stretch_s": STRETCH_S,
        "data": "normal random values; buffers take turns",
    }
    kinds = sorted({job.kind for job in wanted})
    record = RowsToMeasure(
        plan,
        "microbench",
        machine,
        results,
        {"kinds": kinds, "protocol": protocol},
        rows,
        again=partial(run_micro, plan, machine, results=results, only=only),
    )
    return run_rows(record, resume, deadline)


def swept(jobs: list[Job], sweeps: int) -> list[tuple[str, Job]]:
    """Every job with the key of its row, repeated in `sweeps` sweeps over all jobs. A drift of the machine
    then affects all jobs.
    """
    keyed = [(job.key, job) for job in jobs]
    for sweep in range(1, sweeps):
        keyed += [(f"{job.key}/{sweep}", job) for job in jobs]
    return keyed


@torch.inference_mode()
def time_job(
    maker: KernelMaker,
    job: Job,
    clock: Clock,
    device: torch.device,
    shard: RankShard,
    samples: int = MIN_SAMPLES,
) -> Row:
    """Times one kernel and returns its row, with the seconds per call. A sample has several calls, and every
    rank makes the same number of calls.
    """
    base = {"kind": job.kind, "at": job.at}
    kernel = None
    once = math.inf
    trouble = None
    try:
        kernel = maker.make(job)
        once = _called(kernel, 1, clock, device, 0)
    except Exception as error:  # also of Triton's compiler; other kernels can still be timed
        trouble = failure(error)  # the exception itself would keep the job's tensors
    if not all(shard.of_all(trouble is None)):  # all ranks leave together: none waits for another
        return {**base, **(trouble or failure(RuntimeError("failed on another rank")))}
    assert kernel is not None
    try:
        calls = max(shard.of_all(_calls(kernel, once, clock, device, shard)))
        replay = _captured(kernel, calls) if _is_captured(maker.plan, job, device) else None
        seconds = []
        for sample in range(samples):
            if replay is None:
                seconds.append(_called(kernel, calls, clock, device, sample))
            else:
                seconds.append(_replayed(kernel, replay, clock, device))
    except Exception as error:
        return {**base, **failure(error)}
    per_call = [value / calls for value in seconds]
    return {
        **base,
        "status": "ok",
        "calls": calls,
        "captured": replay is not None,
        "working_set_bytes": kernel.working_set_bytes,
        "samples": {"call_s": per_call},
    }


def _is_captured(plan: Plan, job: Job, device: torch.device) -> bool:
    """Whether the calls of a kernel are timed as the replay of a CUDA graph."""
    wanted = job.kind in CAPTURED or (job.kind == "shell" and plan.protocol.graphs)
    return wanted and device.type == "cuda"


def _calls(kernel: Kernel, once: float, clock: Clock, device: torch.device, shard: RankShard) -> int:
    """Number of calls that take about `STRETCH_S`. The calls that determine it warm the kernel up.

    - once: seconds of the very first call.

    Ranks decide together whether to warm up again, because a collective that one rank calls alone would wait
    for ever.
    """
    if all(shard.of_all(once < LONG_S)):
        once = _called(kernel, 1, clock, device, 1)
    return max(1, min(kernel.max_calls, round(STRETCH_S / max(once, LEAST_S))))


def _called(kernel: Kernel, calls: int, clock: Clock, device: torch.device, sample: int) -> float:
    """Seconds of a series of calls, without those of the spacer.

    - sample: the number of the series, which determines its first buffer.
    """
    _begin(kernel, clock, device)
    for i in range(calls):
        if kernel.spacer is not None:
            kernel.spacer()
        kernel.call((sample * calls + i) % kernel.buffers)
    clock.mark()
    if kernel.spacer is None:
        return clock.laps()[0]
    for _ in range(SPACER_STRETCHES):
        for _ in range(calls):
            kernel.spacer()
        clock.mark()
    both, *spacers = clock.laps()
    return max(both - min(spacers), both * MIN_SHARE)


def _replayed(kernel: Kernel, replay: Replay, clock: Clock, device: torch.device) -> float:
    """Seconds of a captured series of calls. A graph contains no spacer, and every replay begins with the
    first buffer.
    """
    _begin(kernel, clock, device)
    replay()
    clock.mark()
    return clock.laps()[0]


def _begin(kernel: Kernel, clock: Clock, device: torch.device) -> None:
    """Restores the kernel's state, waits for the device and marks the beginning of a series."""
    if kernel.restore is not None:
        kernel.restore()
    synchronize(device)
    clock.mark()


def _captured(kernel: Kernel, calls: int) -> Replay:
    """The replay of a series of calls as a CUDA graph."""
    return captured(lambda: [kernel.call(i % kernel.buffers) for i in range(calls)])
