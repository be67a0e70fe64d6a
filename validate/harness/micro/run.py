"""The clock over every job of a plan; the record is one like `measure`'s, of kind ``microbench``."""

from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InputError
from perfmodel.validate.harness import environment
from perfmodel.validate.harness.clock import Clock, clock_for, overhead_s, synchronize
from perfmodel.validate.harness.group import Group
from perfmodel.validate.harness.measure import OUT_OF_MEMORY, failure
from perfmodel.validate.harness.micro.grid import Job, jobs
from perfmodel.validate.harness.micro.kernels import Kernel, Workshop
from perfmodel.validate.harness.plans import MIN_SAMPLES, Plan
from perfmodel.validate.harness.progress import Progress
from perfmodel.validate.harness.recorder import Recorder, machine_folder, open_recorder
from perfmodel.validate.harness.rig import DTYPES
from perfmodel.validate.records.record import RESULTS

STRETCH_S = 4e-3
"""Calls are timed in stretches of about this long, so that the clock's own cost does not count."""
BESIDE_TURNS = 3
"""Stretches of the kernel between two large ones; the fastest is taken off."""
LEAST_SHARE = 0.01
"""What is left at the least where another process slowed that kernel alone."""
LONG_S = 0.25
"""A call longer than this is not warmed up a second time."""
CAPTURED = ("gemm", "attention", "norm", "rope", "activation", "residual", "sampling", "bare")
"""Kinds timed inside a CUDA graph, where the host's launches do not count; a shell is where the plan's passes are."""


def run_micro(
    plan: Plan,
    machine: str,
    *,
    resume: bool = False,
    results: Path = RESULTS,
    only: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Path | None:
    """Time the kernels of a plan's models and write the record; None on ranks other than 0."""
    if plan.threads:
        torch.set_num_threads(plan.threads)
    device = environment.device_of(plan.device)
    wanted = [job for job in jobs(plan) if not only or job.kind in only]
    if not wanted:
        raise InputError(f"--only: must be kinds of kernels of the plan, given {', '.join(only)}")
    with Group.join(plan.tensor_parallel, device) as group:
        recorder = _open(plan, machine, device, resume, results, wanted) if group.rank == 0 else None
        try:
            _measure(plan, device, group, recorder, wanted, progress or Progress())
        finally:
            if recorder is not None:
                recorder.journal.close()
        return recorder.finish() if recorder else None


def _open(plan: Plan, machine: str, device: torch.device, resume: bool, results: Path, wanted: list[Job]) -> Recorder:
    clock = clock_for(device)
    header = {
        "kind": "microbench",
        "machine": machine,
        "hardware": plan.hardware,
        "plan": plan.resolved(),
        "plan_sha256": plan.digest,
        **environment.commit(),
        "environment": environment.capture(device),
        "protocol": {
            "samples": MIN_SAMPLES,
            "timer": clock.name,
            "timer_overhead_s": overhead_s(clock),
            "stretch_s": STRETCH_S,
            "data": "normal random values; buffers take turns",
        },
        "kinds": sorted({job.kind for job in wanted}),
    }
    return open_recorder(machine_folder(machine, results), f"{plan.name}-micro", header, resume)


def _measure(
    plan: Plan, device: torch.device, group: Group, recorder: Recorder | None, wanted: list[Job], progress: Progress
) -> None:
    done = group.agree(recorder.done if recorder else None)
    todo = [job for job in wanted if job.key not in done]
    shop, clock = Workshop(plan, device, DTYPES[plan.precision.weights]), clock_for(device)
    progress.begin(len(wanted), len(wanted) - len(todo))
    for job in todo:
        progress.show(job.key)
        row = time_job(shop, job, clock, device, group)
        if recorder is not None:
            recorder.run(job.key, lambda row=row: row)  # type: ignore[misc]
        progress.step()
    progress.end()


@torch.inference_mode()
def time_job(
    shop: Workshop, job: Job, clock: Clock, device: torch.device, group: Group, samples: int = MIN_SAMPLES
) -> dict[str, Any]:
    """One finished row: seconds per call, a stretch of calls a sample; as many calls on every rank."""
    base = {"kind": job.kind, "at": job.at}
    kernel, once, trouble = None, 0.0, None
    try:
        kernel = shop.make(job)
        once = _stretch(kernel, 1, clock, device, 0, None)
    except (InputError, *OUT_OF_MEMORY, RuntimeError) as error:
        trouble = error
    if not group.all_true(kernel is not None and trouble is None):  # or the other ranks would wait for this one
        return {**base, **failure(trouble or RuntimeError("failed on another rank"))}
    assert kernel is not None
    try:
        calls = group.largest(_calls(kernel, once, clock, device, group))
        captured = job.kind in CAPTURED or (job.kind == "shell" and shop.plan.protocol.graphs)
        run = _captured(kernel, calls) if device.type == "cuda" and captured else None
        seconds = [_stretch(kernel, calls, clock, device, sample, run) for sample in range(samples)]
    except (InputError, *OUT_OF_MEMORY, RuntimeError) as error:
        return {**base, **failure(error)}
    per_call = [value / calls for value in seconds]
    return {
        **base,
        "status": "ok",
        "calls": calls,
        "captured": run is not None,
        "working_set_bytes": kernel.working_set_bytes,
        "samples": {"call_s": per_call},
    }


def _calls(kernel: Kernel, once: float, clock: Clock, device: torch.device, group: Group) -> int:
    """So many calls that a stretch takes about `STRETCH_S`; the calls that find it out warm the kernel up.

    once: seconds of the very first call.

    Ranks decide together whether to warm up again: a collective called by one of them alone would wait for ever.
    """
    if group.all_true(once < LONG_S):
        once = _stretch(kernel, 1, clock, device, 1, None)
    return max(1, min(kernel.most_calls, round(STRETCH_S / max(once, 1e-9))))


def _stretch(kernel: Kernel, calls: int, clock: Clock, device: torch.device, sample: int, run: Any) -> float:
    if kernel.rewind is not None:
        kernel.rewind()
    synchronize(device)
    clock.mark()
    if run is not None:
        run()
        clock.mark()
        return clock.laps()[0]
    for i in range(calls):
        if kernel.beside is not None:
            kernel.beside()
        kernel.call((sample * calls + i) % kernel.buffers)
    clock.mark()
    if kernel.beside is None:
        return clock.laps()[0]
    for _ in range(BESIDE_TURNS):
        for _ in range(calls):
            kernel.beside()
        clock.mark()
    both, *beside = clock.laps()
    return max(both - min(beside), both * LEAST_SHARE)


def _captured(kernel: Kernel, calls: int) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            kernel.call(i % kernel.buffers)
    return graph.replay
