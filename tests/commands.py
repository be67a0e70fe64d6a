"""The command line in this process: what it printed, as text or as JSON."""

import json
from typing import Any

import pytest

from perfmodel import cli


def examples() -> dict[str, str]:
    """The words after ``perfmodel`` -> the rest of the example that the verb declares."""
    by_verb = {}
    for verb in cli.COMMANDS:
        command = cli.command(verb)
        for name, one in getattr(command, "commands", {"": command}).items():
            by_verb[f"{verb} {name}".strip()] = one.example
    return by_verb


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output."""
    assert cli.run(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a refused command prints."""
    assert cli.run(arguments) == 2
    out, line = capsys.readouterr()
    assert out == ""
    assert line.count("\n") == 1
    assert line[-1] == "\n"
    assert line.startswith("error: ")
    return line


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What ``--json`` prints."""
    return json.loads(run(capsys, *arguments, "--json"))
