"""The journal of one run: begins it, continues that of an interrupted run, and makes a record of its rows."""

import datetime
import re
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError
from perfmodel.reading import is_file
from perfmodel.validate.harness import environment
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.records import SCHEMA_VERSION

SAME_HEADER = ("kind", "plan_sha256", "commit", "dirty", "source_sha256", "hardware", "calibration", "kinds")
"""Header fields that must be equal in all sessions of one run."""


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


def check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
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


def _identity(header: dict[str, Any]) -> dict[str, Any]:
    """Everything in a header that must be equal in all sessions of a run."""
    identity = {key: header.get(key) for key in SAME_HEADER}
    for key, value in environment.without_drift(header.get("environment")).items():
        identity[f"{key} of the machine"] = value
    return identity
