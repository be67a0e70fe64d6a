"""The command line in this process: what it printed, as text or as JSON."""

import json
from typing import Any

import pytest

from perfmodel import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """Standard output; standard error where another status than 0 is wanted."""
    assert cli.run(arguments) == status
    printed = capsys.readouterr()
    return printed.err if status else printed.out


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What ``--json`` prints."""
    return json.loads(run(capsys, *arguments, "--json"))


def read_row(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The one row of what ``--json`` prints."""
    (row,) = read(capsys, *arguments)["rows"]
    return row
