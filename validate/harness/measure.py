"""The clock over every point of a plan: end-to-end samples without a wait in the loop, and phases apart from them."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InputError
from perfmodel.validate.harness import environment
from perfmodel.validate.harness.clock import Clock, PeakMemory, clock_for, overhead_s, synchronize
from perfmodel.validate.harness.group import Group
from perfmodel.validate.harness.plans import Mode, Plan, Point
from perfmodel.validate.harness.progress import Progress
from perfmodel.validate.harness.recorder import Recorder, machine_folder, open_recorder
from perfmodel.validate.harness.rig import Models, Phases, Rig
from perfmodel.validate.records.record import RESULTS

PHASES = ("propose_s", "verify_s", "decide_s", "commit_s")
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)


def run_plan(
    plan: Plan,
    machine: str,
    *,
    resume: bool = False,
    results: Path = RESULTS,
    only: Callable[[Point], bool] | None = None,
    progress: Progress | None = None,
) -> Path | None:
    """Measure what is not measured yet and write the record; None on ranks other than 0.

    Ctrl-C leaves the journal with every finished row; `resume` goes on from it.
    """
    if plan.threads:
        torch.set_num_threads(plan.threads)
    device = environment.device_of(plan.device)
    with Group.join(plan.tensor_parallel, device) as group:
        recorder = _open(plan, machine, device, resume, results) if group.rank == 0 else None
        session = Session(plan, device, group, recorder)
        runs = [(point, mode) for point, mode in plan.runs() if only is None or only(point)]
        try:
            session.measure(runs, progress or Progress())
        finally:
            if recorder is not None:
                recorder.journal.close()
        return recorder.finish() if recorder else None


def _open(plan: Plan, machine: str, device: torch.device, resume: bool, results: Path) -> Recorder:
    clock = clock_for(device)
    header = {
        "kind": "measure",
        "machine": machine,
        "hardware": plan.hardware,
        "plan": plan.resolved(),
        "plan_sha256": plan.digest,
        **environment.commit(),
        "environment": environment.capture(device),
        "protocol": {
            **plan.protocol.model_dump(mode="json"),
            "timer": clock.name,
            "timer_overhead_s": overhead_s(clock),
            "acceptance": "scripted",
            "interleaved": True,
            "cache": "random values, no prefill",
        },
    }
    return open_recorder(machine_folder(machine, results), plan.name, header, resume)


class Session:
    """Runs rows one after another; a point's rig is shared by its modes."""

    def __init__(self, plan: Plan, device: torch.device, group: Group, recorder: Recorder | None) -> None:
        self.plan, self.device, self.group, self.recorder = plan, device, group, recorder
        self.models = Models(plan, device, group.shard)
        self.clock, self.memory = clock_for(device), PeakMemory(device)
        self._rig: tuple[str, Rig | dict[str, Any]] | None = None

    def measure(self, runs: list[tuple[Point, Mode]], progress: Progress) -> None:
        """Every row that is not in the journal yet, in order."""
        done = self.group.agree(self.recorder.done if self.recorder else None)
        todo = [(point, mode) for point, mode in runs if row_key(point, mode) not in done]
        progress.begin(len(runs), len(runs) - len(todo))
        for point, mode in todo:
            progress.show(f"{point.key} {mode}")
            row = self.row(point, mode)
            if self.recorder is not None:
                self.recorder.run(row_key(point, mode), lambda row=row: row)  # type: ignore[misc]
            progress.step()
        progress.end()

    @torch.inference_mode()
    def row(self, point: Point, mode: Mode) -> dict[str, Any]:
        """One finished row; running out of memory and other failures are rows too."""
        base = {**point.as_dict(), "mode": mode}
        rig = self._made(point)
        if isinstance(rig, dict):
            return {**base, **rig}
        try:
            timed = end_to_end if mode == "end_to_end" else phases
            row = timed(rig, self.plan, self.clock, self.device)
        except (*OUT_OF_MEMORY, RuntimeError) as error:
            self._rig = (point.key, failure(error))
            return {**base, **failure(error)}
        base |= {"status": "ok", "attention": rig.attention, "graphs": rig.graphs}
        return {**base, **row, "peak_memory_bytes": self.memory.bytes()}

    def _made(self, point: Point) -> Rig | dict[str, Any]:
        if self._rig is None or self._rig[0] != point.key:
            self._rig = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self.memory.reset()
            try:
                made: Rig | dict[str, Any] = Rig(self.models, self.plan, point)
            except (InputError, *OUT_OF_MEMORY, RuntimeError) as error:
                made = failure(error)
            if not self.group.all_true(isinstance(made, Rig)):
                made = made if isinstance(made, dict) else {"status": "failed", "error": "another rank failed"}
            self._rig = (point.key, made)
        return self._rig[1]


def row_key(point: Point, mode: Mode) -> str:
    """Names a row within its record."""
    return f"{point.key}/{mode}"


def failure(error: BaseException) -> dict[str, Any]:
    """What a row says where there is no time."""
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, OUT_OF_MEMORY) or "must fit" in text
    return {"status": "out_of_memory" if memory else "failed", "error": f"{type(error).__name__}: {text}"}


def end_to_end(rig: Rig, plan: Plan, clock: Clock, device: torch.device) -> dict[str, Any]:
    """Plain and speculative samples in turn, each `iterations` iterations from the same start, nothing timed inside."""
    protocol = plan.protocol
    lanes = {"plain": rig.plain, "speculative": rig.fast}
    seconds: dict[str, list[float]] = {name: [] for name in lanes}
    gained: dict[str, list[int]] = {name: [] for name in lanes}
    for sample in range(-protocol.warmup, protocol.samples):
        if sample == 0:
            rig.fast.state.histogram.zero_()
        for name in lanes if sample % 2 == 0 else reversed(lanes):
            rig.reset()
            synchronize(device)
            clock.mark()
            lanes[name].run(protocol.iterations, protocol.read_every)
            clock.mark()
            lap = clock.laps()[0]
            if sample >= 0:
                seconds[name].append(lap)
                gained[name].append(sum(lanes[name].gained()))
    return {
        "iterations": protocol.iterations,
        "samples": {f"{name}_s": values for name, values in seconds.items()},
        "tokens": gained,
        "histogram": rig.fast.state.histogram.tolist(),
        "mean_growth_tokens": statistics.fmean(gained["speculative"]) / plan_batch(rig) / 2,
    }


def plan_batch(rig: Rig) -> int:
    """Sequences of the rig."""
    return int(rig.fast.state.length.shape[0])


def phases(rig: Rig, plan: Plan, clock: Clock, device: torch.device) -> dict[str, Any]:
    """Each phase of each iteration by itself, the device idle at every mark; plain iterations in between."""
    protocol = plan.protocol
    times: dict[str, dict[str, list[float]]] = {lane: {name: [] for name in PHASES} for lane in rig.phases}
    for sample in range(-protocol.warmup, protocol.samples):
        for lane in rig.phases if sample % 2 == 0 else reversed(rig.phases):
            rig.reset()
            for _ in range(protocol.iterations):
                laps = _phases_once(rig.phases[lane], clock, device)
                if sample >= 0:
                    for name, lap in zip(PHASES, laps, strict=True):
                        times[lane][name].append(lap)
    times["plain"].pop("propose_s")
    return {
        "iterations": protocol.iterations,
        "samples": {f"{lane}_{name}": values for lane, table in times.items() for name, values in table.items()},
    }


def _phases_once(parts: Phases, clock: Clock, device: torch.device) -> list[float]:
    for part in (None, parts.propose, parts.verify, parts.decide, parts.commit):
        if part is not None:
            part()
        synchronize(device)
        clock.mark()
    laps = clock.laps()
    parts.lane.decoder.tighten()
    return laps
