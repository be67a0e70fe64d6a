"""One sitting of a run: device and ranks, the record that it begins or goes on with, and every row that is missing."""

import datetime
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Literal

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.parallel import joined
from perfmodel.validate.harness import environment
from perfmodel.validate.harness.clock import clock_for, is_usable, overhead_s
from perfmodel.validate.harness.group import RankGroup
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.harness.recorder import open_journal
from perfmodel.validate.records.code_version import commit
from perfmodel.validate.records.plan import Plan
from perfmodel.validate.records.store import machine_folder

Row = dict[str, Any]
Rows = list[tuple[str, Callable[[], Row]]]
"""Keys and what measures each, in order."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)


class SpoiltDevice(Exception):
    """A row failed and left a device that this process cannot go on with; another may."""


def run_rows(
    plan: Plan,
    kind: Literal["measure", "microbench"],
    machine: str,
    results: Path,
    prepare: Callable[[torch.device, RankGroup], Rows],
    again: Callable[..., Path | None],
    protocol: Row,
    header: Row,
    resume: bool = False,
    minutes: float | None = None,
) -> Path | None:
    """Measure the rows that are not in the record yet and write it; None on ranks other than 0.

    prepare: makes them, once device and ranks are known. Ctrl-C leaves the journal with every finished row; `resume`
    goes on from it. again: the whole run in another process: on one GPU from the first, so that this one holds none of
    its memory, and wherever a failed row has spoilt the device for its process. minutes: the record is finished when
    another row as long as the longest would take longer.
    """
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    if plan.device == "cpu" or plan.tensor_parallel > 1 or parent_process() is not None:
        try:
            return _sitting(plan, kind, machine, results, prepare, {**header, "protocol": protocol}, resume, deadline)
        except SpoiltDevice:
            if plan.tensor_parallel > 1:
                raise InputError("a failed row has spoilt the device; finished rows are kept for --resume") from None
            if parent_process() is not None:
                raise
        resume = True
    while True:
        left = None if minutes is None else max(1e-3, (deadline - time.monotonic()) / 60)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh, suppress(SpoiltDevice):
            return fresh.submit(again, resume=resume, minutes=left).result()
        resume = True


def _sitting(
    plan: Plan,
    kind: Literal["measure", "microbench"],
    machine: str,
    results: Path,
    prepare: Callable[[torch.device, RankGroup], Rows],
    header: Row,
    resume: bool,
    deadline: float,
) -> Path | None:
    if plan.threads:
        torch.set_num_threads(plan.threads)
    device = environment.device_of(plan.device)
    with joined(plan.tensor_parallel, device, "tensor_parallel") as shard:
        group, journal = RankGroup(shard), None
        if group.rank == 0:
            clock = clock_for(device)
            timer = {"timer": clock.name, "timer_overhead_s": overhead_s(clock)}
            began = {
                "kind": kind,
                "machine": machine,
                "hardware": plan.hardware,
                "plan": plan.resolved(),
                "plan_sha256": plan.digest,
                **commit(),
                "environment": environment.capture(device),
                **header,
                "protocol": {**header["protocol"], **timer},
            }
            name = plan.name if kind == "measure" else f"{plan.name}-micro"
            journal = open_journal(machine_folder(machine, results), name, began, resume)
        try:
            _measure(prepare(device, group), device, group, journal, deadline)
        finally:
            if journal is not None:
                journal.close()
        return journal.finish() if journal else None


def _measure(rows: Rows, device: torch.device, group: RankGroup, journal: Journal | None, deadline: float) -> None:
    done = group.agree(journal.keys() if journal else None)
    missing = [(key, measure) for key, measure in rows if key not in done]
    progress, longest = RowProgress(len(rows), len(rows) - len(missing)), 0.0
    for key, measure in missing:
        began = time.monotonic()
        if longest and not group.all_true(began + longest < deadline):
            break
        progress.show(key)
        row = measure()
        longest = max(longest, time.monotonic() - began)
        if journal is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            journal.add({"key": key, "utc": now, "load_average": round(os.getloadavg()[0], 2), **row})
        progress.step()
        if row["status"] == "failed" and not is_usable(device):
            raise SpoiltDevice
    progress.end()


def failure(error: BaseException) -> Row:
    """What a row says where there is no time."""
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, OUT_OF_MEMORY) or "must fit" in text
    return {"status": "out_of_memory" if memory else "failed", "error": f"{type(error).__name__}: {text}"}
