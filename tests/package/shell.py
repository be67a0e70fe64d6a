"""Commands in a shell that sees nothing of this checkout, and what is built and installed of it."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Archives(NamedTuple):
    """An sdist, and the wheel that was built from it."""

    sdist: Path
    wheel: Path


class Installation(NamedTuple):
    """An environment that holds the wheel and its base dependencies. scripts: its programs. folder: an empty
    working folder.
    """

    scripts: Path
    folder: Path


def shell(command: str, folder: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    how = {"capture_output": True, "text": True, "check": False, "timeout": 900}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, **how)


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command; nothing of this checkout is on its path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = shell(shlex.join(map(str, command)), cwd, environment)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def without_git(folder: Path, scripts: Path) -> dict[str, str]:
    """The environment of a machine that has no git; the commands of an environment come first."""
    lacking = folder / "no-git"
    lacking.mkdir(exist_ok=True)
    (lacking / "git").write_text("#!/bin/sh\nexit 127\n")
    (lacking / "git").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PERFMODEL"))}
    return kept | {"PATH": os.pathsep.join(map(str, (lacking, scripts, os.environ["PATH"])))}
