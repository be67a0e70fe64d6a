"""The version of the code of a run: its commit, whether files were changed, and a digest of the files on
which a result can depend.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError
from perfmodel.reading import PACKAGE, data_folder

ROOT = PACKAGE.parent
SOURCES = ("perfmodel", "validate", "hardware")
"""Folders whose changes make a commit dirty."""
FOLDERS = {"": PACKAGE, "validate": Path(__file__).parents[1], "hardware": data_folder("hardware")}
"""Name of a folder in the digest -> its path."""
UNKNOWN = "unknown"
WAIT_S = 20
"""Longest time of a command, in seconds."""


def commit() -> dict[str, Any]:
    """The commit of the code, whether files were changed, and the source digest. The commit comes from
    PERFMODEL_COMMIT, or from git in a checkout; otherwise it is `UNKNOWN`.

    Without a commit, the installed version and the digest identify the code. Raises InputError for an invalid
    PERFMODEL_COMMIT.
    """
    digest = source_digest(FOLDERS)
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
    parsed = run("git", "-C", str(ROOT), "rev-parse", "--show-toplevel", "HEAD") or ""
    top, _, head = parsed.partition("\n")
    if head and Path(top) == ROOT.resolve():  # an installed package can be inside another repository
        status = run("git", "-C", str(ROOT), "status", "--porcelain", "--", *SOURCES, "pyproject.toml")
        return {"commit": head, "dirty": bool(status), "commit_from": "git", "source_sha256": digest}
    return {
        "commit": UNKNOWN,
        "dirty": False,
        "commit_from": f"perfmodel {version()}",
        "source_sha256": digest,
    }


def version() -> str:
    """Version of the installed package."""
    from importlib.metadata import version as installed

    return installed("perfmodel")


def source_digest(folders: Mapping[str, Path]) -> str:
    """The SHA-256 of the code and data files in `folders` on which a run can depend. A clone and an installed
    package with the same files have the same digest.
    """
    files = {
        Path(name) / path.relative_to(folder): path
        for name, folder in folders.items()
        for path in folder.rglob("*")
    }
    total = hashlib.sha256()
    for name in sorted(files):
        if name.suffix in (".py", ".yaml") and name.parts[0] != "results" and files[name].is_file():
            total.update(name.as_posix().encode() + b"\0" + files[name].read_bytes() + b"\0")
    return total.hexdigest()


def run(*command: str) -> str | None:
    """The standard output of a command, without white space at its ends; None if the command fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
