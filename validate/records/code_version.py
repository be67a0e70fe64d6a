"""Which code ran: commit and dirty flag, and a digest of the sources that a result can depend on."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError

ROOT = Path(__file__).parents[3]
SOURCES = ("perfmodel", "validate", "hardware")


def commit() -> dict[str, Any]:
    """Commit and dirty flag from git, or from PERFMODEL_COMMIT where the tree travels without it; and a source digest.

    Raises InputError where neither is known: a measurement of unknown code is none.
    """
    digest = _source_digest()
    given = os.environ.get("PERFMODEL_COMMIT", "")
    if given:
        if not re.fullmatch(r"[0-9a-f]{8,40}(-dirty)?", given):
            raise InputError(f"PERFMODEL_COMMIT: must be 8 to 40 hex digits, with -dirty where it was, given {given!r}")
        sha, _, flag = given.partition("-")
        return {"commit": sha, "dirty": bool(flag), "commit_from": "PERFMODEL_COMMIT", "source_sha256": digest}
    head, status = run("git", "-C", str(ROOT), "rev-parse", "HEAD"), None
    if head:
        status = run("git", "-C", str(ROOT), "status", "--porcelain", "--", *SOURCES, "pyproject.toml")
    if not head or status is None:
        raise InputError("commit: must be known from git, or given as PERFMODEL_COMMIT=<hex digits>")
    return {"commit": head, "dirty": bool(status), "commit_from": "git", "source_sha256": digest}


def _source_digest() -> str:
    """SHA-256 over the code and data files that a run can depend on."""
    total = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml") and path.is_file():
                total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def run(*command: str) -> str | None:
    """Standard output of a command without its last line break; None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
