"""One session of a run. It prepares the device and the ranks, begins or continues a record, and measures
every missing row.
"""

import datetime
import os
import re
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
from perfmodel.reading import is_file
from perfmodel.validate.decoder import RankShard, joined
from perfmodel.validate.harness import environment, gpu_clocks
from perfmodel.validate.harness.clock import clock_for, is_usable, overhead_s
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.records import SCHEMA_VERSION, Plan, commit, machine_folder

Row = dict[str, Any]
Rows = list[tuple[str, Callable[[], Row]]]
"""The keys of rows and the functions that measure them, in order."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)
DOES_NOT_FIT = "must fit"
"""Words in the errors of the decoder's `check_fits`, which refuses to allocate too much memory."""
SAME_HEADER = ("kind", "plan_sha256", "commit", "dirty", "source_sha256", "hardware", "calibration", "kinds")
"""Header fields that must be equal in all sessions of one run."""


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

    After Ctrl-C, the journal has every finished row, and `resume` continues it. On one GPU, a child process
    measures, so this process uses none of the GPU's memory. If a failed row makes the device unusable for the
    child, a new child continues.

    - deadline: a value of `time.monotonic`; see `in_time`.
    """
    if wanted.plan.device == "cpu" or wanted.plan.tensor_parallel > 1 or parent_process() is not None:
        try:
            return _one_process(wanted, resume, deadline)
        except SpoiltDevice:
            if wanted.plan.tensor_parallel > 1:
                raise InputError(
                    "a failed row left the device unusable; finished rows are kept for --resume"
                ) from None
            if parent_process() is not None:
                raise
        resume = True
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


def open_journal(folder: Path, name: str, header: dict[str, Any], resume: bool) -> Journal:
    """Begins the journal ``<UTC>-<commit8>-<name>``, or continues the latest unfinished run of this name.
    Raises InputError.
    """
    if not resume:
        now = datetime.datetime.now(datetime.UTC)
        stem = f"{now:%Y%m%dT%H%M%SZ}-{header['commit'][:8]}-{name}"
        return Journal.begin(folder / f"{stem}.journal", {"schema_version": SCHEMA_VERSION, **header})
    journals = unfinished(folder, name)
    if not journals:
        raise InputError(f"--resume: no unfinished run of {name} in {folder.name}; run without --resume")
    journal = Journal.resume(journals[-1])
    try:
        check_same(journal.header, header)
    except InputError:
        journal.close()
        raise
    return journal


def finish_journal(path: Path) -> Path:
    """Makes a record from the finished rows of an interrupted run. Raises InputError for a journal without
    rows.
    """
    if path.suffix != ".journal" or not is_file(path):
        raise InputError(f"{path}: must be a .journal file that an interrupted run left behind")
    with Journal.resume(path) as journal:
        if journal.row_texts:
            return journal.finish()
    raise InputError(
        f"{path}: must hold a finished row; the run was interrupted before its first: delete the file"
    )


def unfinished(folder: Path, name: str) -> list[Path]:
    """The journals of interrupted runs with this name, beginning with the oldest."""
    stem = re.compile(rf"\d+T\d+Z-([0-9a-f]{{8}}|unknown)-{name}")
    return sorted(path for path in folder.glob("*.journal") if stem.fullmatch(path.stem))


def check_same(before: Row, now: Row) -> None:
    """Raises InputError if two headers have different plans, commits or machines, which must not be mixed in
    one record.
    """
    old = _identity(before)
    new = _identity(now)
    for key in old | new:
        old_value = old.get(key)
        new_value = new.get(key)
        if old_value != new_value:
            raise InputError(
                f"--resume: {key} must equal that of the interrupted run ({str(old_value)[:12]}), "
                f"given {str(new_value)[:12]}: start a new run"
            )


def _identity(header: Row) -> Row:
    """Everything in a header that must be equal in all sessions of a run."""
    identity = {key: header.get(key) for key in SAME_HEADER}
    for key, value in environment.without_drift(header.get("environment")).items():
        identity[f"{key} of the machine"] = value
    return identity
