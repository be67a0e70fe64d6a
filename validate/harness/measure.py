"""Measures the points of a plan. End-to-end samples have no waits in the loop. The phases of an iteration are
measured in separate runs.
"""

import itertools
import math
import statistics
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import torch

from perfmodel.validate.decoder import RankShard
from perfmodel.validate.harness.clock import Clock, clock_for, free_memory, keep_busy, synchronize
from perfmodel.validate.harness.point_runner import LoadedModels, PhaseRunner, PointRunner
from perfmodel.validate.harness.session import Row, Rows, RowsToMeasure, failure, run_rows
from perfmodel.validate.records import RESULTS, SAMPLES, Mode, Plan, PlanPoint, half_width, ratios
from perfmodel.validate.records.plan import Protocol

PHASES = {"ar": ("", "target", "accept", "commit"), "sd": ("draft", "verify", "accept", "commit")}
"""Names of the samples of an iteration's four phases, without a draft (``ar``) and with one (``sd``). A phase
with an empty name is not recorded.
"""


def run_plan(
    plan: Plan,
    machine: str,
    *,
    resume: bool = False,
    results: Path = RESULTS,
    header: Row | None = None,
    deadline: float = math.inf,
) -> Path | None:
    """Measures every point of a plan in every mode and writes the record; see `run_rows`."""

    def rows(device: torch.device, shard: RankShard) -> Rows:
        measurer = PointMeasurer(plan, device, shard)
        keyed: Rows = []
        for point, mode in plan.runs():
            keyed.append((f"{point.name}/{mode}", partial(measurer.row, point, mode)))
        return keyed

    protocol = {
        **plan.protocol.as_mapping(),
        "acceptance": "scripted",
        "interleaved": True,
        "cache": "random values, no prefill",
    }
    wanted = RowsToMeasure(
        plan,
        "measure",
        machine,
        results,
        {**(header or {}), "protocol": protocol},
        rows,
        again=partial(run_plan, plan, machine, results=results, header=header),
    )
    return run_rows(wanted, resume, deadline)


class PointMeasurer:
    """Measures rows one after another. The modes of a point share its runner."""

    def __init__(self, plan: Plan, device: torch.device, shard: RankShard) -> None:
        self.plan = plan
        self.device = device
        self.shard = shard
        self.models = LoadedModels(plan, device, shard)
        self.clock = clock_for(device)
        self._runner: tuple[str, PointRunner | Row] | None = None

    @torch.inference_mode()
    def row(self, point: PlanPoint, mode: Mode) -> Row:
        """Measures one row and returns it. If memory runs out or another failure happens, the row has the
        error instead.
        """
        base = {**point.as_mapping(exclude_none=True), "mode": mode}
        runner = self._runner_of(point)
        if isinstance(runner, dict):
            return {**base, **runner}
        try:
            timed = end_to_end if mode == "end_to_end" else phases
            row = timed(runner, self.plan, self.clock, self.device)
        except Exception as error:  # also of Triton's compiler; other points can still be measured
            self._runner = (point.name, failure(error))
            return {**base, **failure(error)}
        base |= {"status": "ok", "attention": runner.attention, "graphs": runner.graphs}
        peak_bytes = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None
        return {**base, **row, "peak_memory_bytes": peak_bytes}

    def _runner_of(self, point: PlanPoint) -> PointRunner | Row:
        """The runner of a point, or the failure for its rows if a rank cannot make it."""
        if self._runner is None or self._runner[0] != point.name:
            self._runner = None
            try:
                free_memory(self.device)
                if self.device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(self.device)
                runner: PointRunner | Row = PointRunner(self.models, self.plan, point)
            except Exception as error:
                runner = failure(error)
            succeeded = self.shard.of_all(isinstance(runner, PointRunner))
            if not all(succeeded) and isinstance(runner, PointRunner):
                runner = {"status": "failed", "error": "another rank failed"}
            self._runner = (point.name, runner)
        return self._runner[1]


def end_to_end(runner: PointRunner, plan: Plan, clock: Clock, device: torch.device) -> Row:
    """Times samples without a draft (`ar`) and with one (`sd`) in turn. Each sample has `iterations`
    iterations and begins with the same state.

    The number of samples follows from `samples` and `within` of the protocol.
    """
    protocol = plan.protocol
    began = time.monotonic()
    started = int(runner.runs["sd"].state.length.sum())
    seconds: dict[str, list[float]] = {name: [] for name in runner.runs}
    gained: dict[str, list[int]] = {name: [] for name in runner.runs}
    for sample in itertools.count(-protocol.warmup):
        if sample >= protocol.samples and _is_settled(protocol, seconds, time.monotonic() - began):
            break
        if sample == 0:
            runner.histogram.zero_()
        for name in in_turn(runner.runs, sample):
            runner.snapshot.restore()
            synchronize(device)
            clock.mark()
            runner.runs[name].run(protocol.iterations, protocol.read_every)
            clock.mark()
            (lap,) = clock.laps()
            if sample >= 0:
                length = int(runner.runs[name].state.length.sum())
                seconds[name].append(lap)
                gained[name].append(length - started)
    tokens_per_sequence = statistics.fmean(gained["sd"]) / runner.batch
    return {
        "iterations": protocol.iterations,
        "samples": {f"{name}_s": values for name, values in seconds.items()},
        "tokens": gained,
        "histogram": runner.histogram.sum(0).tolist(),
        "mean_growth_tokens": tokens_per_sequence / 2,
    }


def _is_settled(protocol: Protocol, seconds: dict[str, list[float]], elapsed_s: float) -> bool:
    """Whether the samples determine the speedup as the protocol demands, or have taken all of its time."""
    if protocol.within is None or elapsed_s > protocol.seconds:
        return True
    samples = {f"{name}_s": values for name, values in seconds.items()}
    return half_width(ratios(samples)) <= protocol.within


def phases(runner: PointRunner, plan: Plan, clock: Clock, device: torch.device) -> Row:
    """Times each phase of each iteration, in turn with iterations of the baseline. The device is kept busy,
    so kernels do not wait for the host.
    """
    protocol = plan.protocol
    samples: dict[str, list[float]] = {name: [] for name in SAMPLES["phases"]}
    for sample in range(-protocol.warmup, protocol.samples):
        for name in in_turn(runner.phases, sample):
            runner.snapshot.restore()
            for _ in range(protocol.iterations):
                laps = _phases_once(runner.phases[name], clock, device)
                if sample < 0:
                    continue
                for phase, lap in zip(PHASES[name], laps, strict=True):
                    if phase:
                        samples[f"{name}_{phase}_s"].append(lap)
    return {"iterations": protocol.iterations, "samples": samples}


def in_turn(names: Iterable[str], sample: int) -> list[str]:
    """The names in the order of a sample: the given order in even samples, and the reverse in odd ones."""
    if sample % 2 == 0:
        return list(names)
    return [*names][::-1]


def _phases_once(phases: PhaseRunner, clock: Clock, device: torch.device) -> list[float]:
    """Seconds of one iteration's draft, verify, accept and commit, which are enqueued together with one
    wait.
    """
    keep_busy(device)
    clock.mark()
    for phase in phases.phases:
        phases.run(phase)
        clock.mark()
    laps = clock.laps()
    phases.decoder.tighten()
    return laps
