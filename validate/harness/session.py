"""One sitting of a run: device and ranks, the record that it begins or goes on with, and every row that is missing."""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from perfmodel.validate.decoder.parallel import joined
from perfmodel.validate.harness import environment
from perfmodel.validate.harness.clock import clock_for, overhead_s
from perfmodel.validate.harness.group import RankGroup
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.harness.recorder import machine_folder, open_journal
from perfmodel.validate.records.code_version import commit
from perfmodel.validate.records.plan import Plan

Row = dict[str, Any]
Rows = list[tuple[str, Callable[[], Row]]]
"""Keys and what measures each, in order."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)


def run_rows(
    plan: Plan,
    kind: Literal["measure", "microbench"],
    machine: str,
    results: Path,
    prepare: Callable[[torch.device, RankGroup], Rows],
    *,
    protocol: Row,
    header: Row | None = None,
    resume: bool = False,
    minutes: float | None = None,
) -> Path | None:
    """Measure the rows that are not in the record yet and write it; None on ranks other than 0.

    prepare: makes them, once device and ranks are known. Ctrl-C leaves the journal with every finished row; `resume`
    goes on from it. minutes: the record is finished when another row as long as the longest would take longer.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
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
                "protocol": {**protocol, **timer},
                **(header or {}),
            }
            name = plan.name if kind == "measure" else f"{plan.name}-micro"
            journal = open_journal(machine_folder(machine, results), name, began, resume)
        try:
            _measure(prepare(device, group), group, journal, deadline)
        finally:
            if journal is not None:
                journal.close()
        return journal.finish() if journal else None


def _measure(rows: Rows, group: RankGroup, journal: Journal | None, deadline: float | None) -> None:
    done = group.agree(journal.keys() if journal else None)
    missing = [(key, measure) for key, measure in rows if key not in done]
    progress, longest = RowProgress(len(rows), len(rows) - len(missing)), 0.0
    for key, measure in missing:
        began = time.monotonic()
        if longest and not group.all_true(deadline is None or began + longest < deadline):
            break
        progress.show(key)
        row = measure()
        longest = max(longest, time.monotonic() - began)
        if journal is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            journal.add({"key": key, "utc": now, "load_average": round(os.getloadavg()[0], 2), **row})
        progress.step()
    progress.end()


def failure(error: BaseException) -> Row:
    """What a row says where there is no time."""
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, OUT_OF_MEMORY) or "must fit" in text
    return {"status": "out_of_memory" if memory else "failed", "error": f"{type(error).__name__}: {text}"}
