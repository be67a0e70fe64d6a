"""One session of a run. It prepares the device and the ranks, begins or continues a record, and measures
every missing row.
"""

import datetime
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Literal

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder import RankShard, joined
from perfmodel.validate.harness import environment, gpu_clocks
from perfmodel.validate.harness.clock import clock_for, is_usable, overhead_s
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.harness.run_journal import open_journal
from perfmodel.validate.records import Plan, commit, machine_folder

Row = dict[str, Any]
Rows = list[tuple[str, Callable[[], Row]]]
"""The keys of rows and the functions that measure them, in order."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)
DOES_NOT_FIT = "must fit"
"""Words in the errors of the decoder's `check_fits`, which refuses to allocate too much memory."""


class SpoiltDevice(Exception):
    """Raised if a failed row made the device unusable for this process. Another process can often still use
    it.
    """


@dataclass(frozen=True)
class RowsToMeasure:
    """The rows of one record.

    - kind, machine, header: those of the record; the protocol in the header has no timer yet.
    - rows: a function that makes the rows when device and ranks are known.
    - again: a function that starts the whole run in another process, with `resume` and `deadline`.
    - usable: a function that says whether the device still works for this process after a failed row.
    """

    plan: Plan
    kind: Literal["measure", "microbench"]
    machine: str
    results: Path
    header: Row
    rows: Callable[[torch.device, RankShard], Rows]
    again: Callable[..., Path | None]
    usable: Callable[[torch.device], bool] = is_usable


def run_rows(wanted: RowsToMeasure, resume: bool, deadline: float) -> Path | None:
    """Measures the missing rows of the record and writes it; None on ranks other than 0.

    After Ctrl-C, the journal has every finished row, and `resume` continues it. Raises InputError if a failed
    row makes the device of one of several ranks unusable, and SpoiltDevice in a child process, whose parent
    then starts a new child.

    On one GPU, a child process measures, so this process uses none of the GPU's memory. On a CPU, this
    process measures, and a child continues if a failed row makes the CPU unusable for this process.

    - deadline: a value of `time.monotonic`; see `in_time`.
    """
    if wanted.plan.tensor_parallel > 1:
        return _one_of_several_ranks(wanted, resume, deadline)
    if parent_process() is not None:
        return _one_process(wanted, resume, deadline)
    if wanted.plan.device == "cpu":
        with suppress(SpoiltDevice):
            return _one_process(wanted, resume, deadline)
        resume = True
    return _in_children(wanted, resume, deadline)


def _one_of_several_ranks(wanted: RowsToMeasure, resume: bool, deadline: float) -> Path | None:
    """Measures the missing rows in this process, which is one rank. Raises InputError for an unusable device,
    because a new process could not join the other ranks.
    """
    try:
        return _one_process(wanted, resume, deadline)
    except SpoiltDevice:
        raise InputError(
            "a failed row left the device unusable; finished rows are kept for --resume"
        ) from None


def _in_children(wanted: RowsToMeasure, resume: bool, deadline: float) -> Path | None:
    """Measures the missing rows in a child process. After a row that makes the device unusable, a new child
    continues. The loop ends, because this row is then in the journal: every child leaves fewer missing rows.
    """
    while True:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh, suppress(SpoiltDevice):
            return fresh.submit(wanted.again, resume=resume, deadline=deadline).result()
        resume = True


def _one_process(wanted: RowsToMeasure, resume: bool, deadline: float) -> Path | None:
    """Measures the missing rows in this process; None on ranks other than 0. Raises SpoiltDevice."""
    plan = wanted.plan
    if plan.threads:
        torch.set_num_threads(plan.threads)
    device = environment.device_of(plan.device)
    with joined(plan.tensor_parallel, device, "tensor_parallel") as shard:
        if shard.rank:
            _measure(wanted, device, shard, None, deadline)
            return None
        name = plan.name if wanted.kind == "measure" else f"{plan.name}-micro"
        folder = machine_folder(wanted.machine, wanted.results)
        with open_journal(folder, name, _header(wanted, device), resume) as journal:
            _measure(wanted, device, shard, journal, deadline)
            return journal.finish()


def _header(wanted: RowsToMeasure, device: torch.device) -> Row:
    """The header of the record: the plan, the commit, the environment and the protocol with its timer."""
    clock = clock_for(device)
    protocol = {**wanted.header["protocol"], "timer": clock.name, "timer_overhead_s": overhead_s(clock)}
    return {
        "kind": wanted.kind,
        "machine": wanted.machine,
        "hardware": wanted.plan.hardware,
        "plan": wanted.plan.resolved(),
        "plan_sha256": wanted.plan.digest,
        **commit(),
        "environment": environment.capture(device),
        **wanted.header,
        "protocol": protocol,
    }


def _measure(
    wanted: RowsToMeasure, device: torch.device, shard: RankShard, journal: Journal | None, deadline: float
) -> None:
    """Measures the missing rows and adds them to the journal, which only rank 0 has. Raises SpoiltDevice if
    the device is unusable after a failed row.
    """
    rows = wanted.rows(device, shard)
    done = shard.of_all(journal.keys() if journal else None)[0]
    missing = [(key, measure) for key, measure in rows if key not in done]
    progress = RowProgress(len(rows), len(rows) - len(missing))
    for key, measure in in_time(missing, shard, deadline):
        progress.show(key)
        with gpu_clocks.watched(device) as state:
            row = measure()
        if journal is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            journal.add({"key": key, "utc": now, "load_average": os.getloadavg()[0], **state, **row})
        progress.step()
        if row["status"] == "failed" and not wanted.usable(device):
            raise SpoiltDevice
    progress.end()


def in_time(
    rows: Rows, shard: RankShard, deadline: float, now_s: Callable[[], float] = time.monotonic
) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yields rows until another row as long as the longest so far would end after the deadline.

    The first row is always measured. It does not count as the longest, because it loads models and compiles
    kernels. All ranks stop at the same row.
    """
    longest_s = 0.0
    for number, row in enumerate(rows):
        began_s = now_s()
        if number and not all(shard.of_all(began_s + longest_s < deadline)):
            return
        yield row
        if number:
            longest_s = max(longest_s, now_s() - began_s)


def failure(error: BaseException) -> Row:
    """The fields of a row without times: its status and the error."""
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, OUT_OF_MEMORY) or DOES_NOT_FIT in text
    return {"status": "out_of_memory" if memory else "failed", "error": f"{type(error).__name__}: {text}"}
