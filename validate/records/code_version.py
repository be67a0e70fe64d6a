"""Which code ran: commit and dirty flag, and a digest of the sources that a result can depend on."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs import PACKAGE

ROOT = PACKAGE.parent
SOURCES = ("perfmodel", "validate", "hardware")
UNKNOWN = "unknown"
WAIT_S = 20


def commit() -> dict[str, Any]:
    """Commit and dirty flag from PERFMODEL_COMMIT, or from git in a checkout, else `UNKNOWN`; and a source
    digest.

    Without either the installed version and the digest say which code ran. Raises InputError for a
    PERFMODEL_COMMIT that is none.
    """
    digest = _source_digest()
    given = os.environ.get("PERFMODEL_COMMIT", "")
    if given:
        if not re.fullmatch(r"[0-9a-f]{8,40}(-dirty)?", given):
            raise InputError(
                f"PERFMODEL_COMMIT: must be 8 to 40 hex digits, with -dirty where it was, given {given!r}"
            )
        sha, _, flag = given.partition("-")
        return {
            "commit": sha,
            "dirty": bool(flag),
            "commit_from": "PERFMODEL_COMMIT",
            "source_sha256": digest,
        }
    top, _, head = (run("git", "-C", str(ROOT), "rev-parse", "--show-toplevel", "HEAD") or "").partition("\n")
    if head and Path(top) == ROOT.resolve():  # an environment may lie inside a repository of something else
        status = run("git", "-C", str(ROOT), "status", "--porcelain", "--", *SOURCES, "pyproject.toml")
        return {"commit": head, "dirty": bool(status), "commit_from": "git", "source_sha256": digest}
    return {
        "commit": UNKNOWN,
        "dirty": False,
        "commit_from": f"perfmodel {version()}",
        "source_sha256": digest,
    }


def version() -> str:
    """Of the installed package."""
    from importlib.metadata import version as installed

    return installed("perfmodel")


def _source_digest() -> str:
    """SHA-256 over the code and data files that a run can depend on."""
    total = hashlib.sha256()
    folders = (
        PACKAGE,
        *(PACKAGE / name for name in SOURCES[1:]),
    )  # which a checkout links to, and a wheel holds
    files = {path.relative_to(PACKAGE) for folder in folders for path in folder.rglob("*") if path.is_file()}
    for path in sorted(files):
        if path.suffix in (".py", ".yaml") and path.parts[0] != "results":
            total.update(path.as_posix().encode() + b"\0" + (PACKAGE / path).read_bytes() + b"\0")
    return total.hexdigest()


def run(*command: str) -> str | None:
    """Standard output of a command without its last line break; None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
