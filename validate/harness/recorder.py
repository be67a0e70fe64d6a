"""Where runs are recorded, and the rules for going on with an interrupted one."""

import datetime
import re
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.harness.environment import fingerprint
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.records.schema import SCHEMA_VERSION

SAME = ("kind", "plan_sha256", "commit", "dirty", "source_sha256", "hardware", "calibration", "kinds")
"""Header fields that must not have changed between the sittings of one run."""


def open_journal(folder: Path, name: str, header: dict[str, Any], resume: bool) -> Journal:
    """Begin ``<UTC>-<commit8>-<name>``, or go on with the latest unfinished run of that name."""
    if not resume:
        now = datetime.datetime.now(datetime.UTC)
        stem = f"{now:%Y%m%dT%H%M%SZ}-{header['commit'][:8]}-{name}"
        return Journal.begin(folder / f"{stem}.journal", {"schema_version": SCHEMA_VERSION, **header})
    left = unfinished(folder, name)
    if not left:
        raise InputError(f"--resume: no unfinished run of {name} in {folder.name}; run without --resume")
    journal = Journal.resume(left[-1])
    try:
        check_same(journal.header, header)
    except InputError:
        journal.close()
        raise
    return journal


def finish_journal(path: Path) -> Path:
    """Make a record of what an interrupted run has finished. Raises InputError for a journal without a row."""
    if path.suffix != ".journal" or not path.is_file():
        raise InputError(f"{path}: must be a .journal file that an interrupted run left behind")
    with Journal.resume(path) as journal:
        if journal.row_texts:
            return journal.finish()
    raise InputError(f"{path}: must hold a finished row; the run was interrupted before its first: delete the file")


def unfinished(folder: Path, name: str) -> list[Path]:
    """Journals of interrupted runs of a name, oldest first."""
    return sorted(
        p for p in folder.glob("*.journal") if re.fullmatch(rf"\d+T\d+Z-([0-9a-f]{{8}}|unknown)-{name}", p.stem)
    )


def check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to mix two plans, two commits or two machines in one record."""
    for key in SAME:
        if before.get(key) != now.get(key):
            raise InputError(
                f"--resume: {key} must be what the run was begun with ({str(before.get(key))[:12]}), "
                f"given {str(now.get(key))[:12]}: start a new run"
            )
    recorded = before.get("environment")
    one, two = fingerprint(recorded if isinstance(recorded, dict) else {}), fingerprint(now["environment"])
    changed = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    if changed:
        raise InputError(f"--resume: {', '.join(changed)} of the machine must not have changed: start a new run")
