"""A sitting with a live server: its points one after the other into a journal, then the record; resumable."""

import datetime
import json
from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.validate.engine.client import Server
from perfmodel.validate.engine.driver import ServerLoad, measure
from perfmodel.validate.engine.record import EnginePoint, EngineSubject, header, stamp
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.progress import RowProgress


def run(
    server: Server,
    served: str,
    subject: EngineSubject,
    vocabulary: int,
    loads: list[ServerLoad],
    gamma: int,
    folder: Path,
    resume: bool,
) -> Path:
    """Time every point that the journal does not hold yet and write ``engine-<UTC>-K<gamma>.json`` into the
    folder.

    Ctrl-C leaves the journal; `resume` goes on from it. A point that fails is a row with its reason. Raises
    InputError, and keeps nothing, where all do.
    """
    journal = _resumed(folder, gamma, subject) if resume else None
    if journal is None:
        journal = Journal.begin(
            folder / f"engine-{stamp()}-K{gamma}.journal", header(folder.name, subject, ("live server",))
        )
    try:
        done = journal.keys()
        progress = RowProgress(len(loads), len(done))
        for load in loads:
            key = f"{load.key}-K{gamma}"
            if key in done:
                continue
            progress.show(key)
            journal.add(
                _point(server, served, vocabulary, load, gamma, key).model_dump(exclude_defaults=True)
            )
            progress.step()
        progress.end()
        return _finish(journal)
    finally:
        journal.close()


def _point(
    server: Server, served: str, vocabulary: int, load: ServerLoad, gamma: int, key: str
) -> EnginePoint:
    utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        return EnginePoint.of(key, measure(server, served, vocabulary, load, gamma, seed=gamma), utc)
    except InputError as error:
        place = {"batch": float(load.batch), "context": float(load.prompt), "gamma": gamma}
        return EnginePoint(key=key, status="failed", error=str(error), utc=utc, **place)  # type: ignore[arg-type]


def _resumed(folder: Path, gamma: int, subject: EngineSubject) -> Journal:
    left = sorted(folder.glob(f"engine-*-K{gamma}.journal"))
    if not left:
        raise InputError(f"--resume: no unfinished run at K = {gamma} in {folder}; run without --resume")
    journal = Journal.resume(left[-1])
    if journal.header.get("subject") != subject.model_dump():
        journal.close()
        raise InputError(
            f"--resume: {left[-1]} was begun for another model, draft or engine: start a new run"
        )
    return journal


def _finish(journal: Journal) -> Path:
    rows = journal.row_texts
    failed = [row for row in map(json.loads, rows) if row.get("status") == "failed"]
    if len(failed) == len(rows):
        journal.close()
        journal.path.unlink()  # of nothing but faults there is nothing to go on with
        raise InputError(failed[0]["error"])
    return journal.finish()
