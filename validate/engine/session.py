"""One session with a running server. Each point is written to a journal as it is measured, and at the end all
points are written to a record. An interrupted session can be resumed.
"""

import collections
import datetime
import json
from collections.abc import Sequence
from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.validate.engine.client import LiveServer, ServerEngine
from perfmodel.validate.engine.driver import ServerLoad, counters, measure
from perfmodel.validate.engine.record import EnginePoint, EngineSubject, record_header, stamp
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress


def run(
    server: LiveServer,
    served: str,
    subject: EngineSubject,
    vocabulary: int,
    loads: list[ServerLoad],
    gamma: int,
    folder: Path,
    resume: bool,
) -> Path:
    """Times every point that is not yet in the journal, and writes ``engine-<UTC>-K<gamma>.json`` to the
    folder.

    After Ctrl-C the journal remains, and `resume` continues from it. A failed point is a row with its error,
    and `resume` measures it again. Raises `PartialRun` if some points failed; the record is then written, and
    the journal remains. Raises InputError if all points failed; no file then remains.
    """
    journal = _resumed(folder, gamma, subject) if resume else None
    if journal is None:
        path = folder / f"engine-{stamp()}-K{gamma}.journal"
        journal = Journal.begin(path, record_header(folder.name, subject, ("live server",)))
    try:
        rows = {key: row for key, (row, _) in _latest(journal).items()}
        done = {key for key, row in rows.items() if row.get("status") != "failed"}
        progress = RowProgress(len(loads), len(done))
        engine = server.engine()
        counting = counters(server) is not None
        for load in loads:
            key = f"{load.key}-K{gamma}"
            if key in done:
                continue
            progress.show(key)
            point = _point(server, served, vocabulary, load, gamma, key, engine, counting)
            journal.add(point.as_mapping(exclude_defaults=True))
            progress.step()
        progress.end()
        return _finish(journal)
    finally:
        journal.close()


class PartialRun(Exception):
    """Raised if some points of a session failed. The record at `path` has them with their errors."""

    def __init__(self, path: Path, rows: Sequence[dict[str, str]]) -> None:
        failed = [row["error"] for row in rows if row.get("status") == "failed"]
        why, times = collections.Counter(failed).most_common()[0]
        several = f" ({times} of them)" if times < len(failed) else ""
        super().__init__(f"{len(failed)} of {len(rows)} points failed{several}: {why}")
        self.path = path


def _latest(journal: Journal) -> dict[str, tuple[dict[str, str], str]]:
    """Key of a point -> its last row, and the text of that row. A point that failed can have several rows."""
    latest = {}
    for text in journal.row_texts:
        row = json.loads(text)
        latest[row["key"]] = (row, text)
    return latest


def _point(
    server: LiveServer,
    served: str,
    vocabulary: int,
    load: ServerLoad,
    gamma: int,
    key: str,
    engine: ServerEngine,
    counting: bool,
) -> EnginePoint:
    """Measures one point and returns its row. If the measurement fails, the row has the error.

    - engine, counting: the server's engine and version, and whether it had counters, at the start of the run.
      Both must be the same after the point.
    """
    utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        prompts = gamma  # prompts differ between draft lengths, and a repeated run sends the same ones
        timing = measure(server, served, vocabulary, load, gamma, seed=prompts)
        if counting and counters(server) is None:
            raise InputError(f"--url: {server.shown}/metrics: must keep the counters that it had, given none")
        engine_after = server.engine()
        if engine_after != engine:
            raise InputError(
                f"--url: {server.shown}: must stay {engine} while it is timed, given {engine_after}"
            )
        return EnginePoint.of(key, timing, utc)
    except InputError as error:
        return EnginePoint(
            key=key,
            batch=float(load.batch),
            context=float(load.prompt),
            gamma=gamma,
            status="failed",
            error=str(error),
            utc=utc,
        )


def _resumed(folder: Path, gamma: int, subject: EngineSubject) -> Journal:
    """The latest unfinished journal of this draft length. Raises InputError if there is none, or if it is
    about another configuration.
    """
    by_start = sorted(folder.glob(f"engine-*-K{gamma}.journal"))  # their names have the time of the start
    if not by_start:
        raise InputError(f"--resume: no unfinished run at K = {gamma} in {folder}; run without --resume")
    latest = by_start[-1]
    journal = Journal.resume(latest)
    if journal.header.get("subject") != subject.as_mapping():
        journal.close()
        raise InputError(f"--resume: {latest} has another model, draft or engine: start a new run")
    return journal


def _finish(journal: Journal) -> Path:
    """Writes the record of a journal and returns its path. Raises PartialRun if some points failed, and
    InputError if all points failed.
    """
    rows, texts = zip(*_latest(journal).values(), strict=True)
    failed = [row for row in rows if row.get("status") == "failed"]
    if len(failed) == len(rows):
        journal.close()
        journal.path.unlink()  # no point to keep for `resume`
        raise InputError(failed[0]["error"])
    path = journal.finish(texts, partial=bool(failed))
    if failed:
        raise PartialRun(path, rows)
    return path
