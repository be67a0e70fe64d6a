"""A trace of requests from a file: when each arrived, and its prompt and output tokens."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import InputError, refuse
from perfmodel.queueing.replay import Arrivals
from perfmodel.reading import read_text

MAX_BYTES = 2**28
NAMES = {
    "at": ("timestamp", "arrival_s", "arrival", "arrival_time", "TIMESTAMP"),
    "input": ("input_length", "input_tokens", "prompt_len", "input_len", "ContextTokens"),
    "output": ("output_length", "output_tokens", "output_len", "GeneratedTokens"),
}
"""What a column is -> what it is called: Mooncake's (milliseconds), this project's, vLLM's, the Azure
trace's.
"""
IN_MILLISECONDS = "timestamp"


def read_trace(path: str | Path) -> Arrivals:
    """The requests of a CSV file with a head, or of JSON lines, in the order of arrival from 0 on.

    `timestamp` is in milliseconds, as in Mooncake's traces, other arrivals are in seconds. Raises InputError.
    """
    where = Path(path)
    text = read_text(where, MAX_BYTES)
    rows = (
        _json_lines(text, where)
        if where.suffix in (".jsonl", ".json")
        else list(csv.DictReader(text.splitlines()))
    )
    if not rows:
        raise refuse(str(where), None, "one request or more", "none")
    names = {key: _name(rows[0], key, where) for key in NAMES}
    columns = {
        key: np.array([_number(row, name, n, where) for n, row in enumerate(rows)])
        for key, name in names.items()
    }
    for key, least in (("input", 1), ("output", 1), ("at", 0)):
        if (wrong := np.flatnonzero(columns[key] < least)).size:
            line = int(wrong[0]) + 1
            raise refuse(
                str(where), f"request {line}: {names[key]}", f"{least} or more", columns[key][wrong[0]]
            )
    order = np.argsort(columns["at"], kind="stable")
    at = columns["at"][order] / (1000.0 if names["at"] == IN_MILLISECONDS else 1.0)
    return Arrivals(
        at - at[0], columns["input"][order].astype(np.int64), columns["output"][order].astype(np.int64)
    )


def _json_lines(text: str, where: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise InputError(f"{where}: line {number}: must be a JSON object of one request")
            rows.append(row)
    return rows


def _name(row: dict[str, Any], key: str, where: Path) -> str:
    known = [name for name in NAMES[key] if name in row]
    if not known:
        raise refuse(
            str(where), None, f"requests with {' or '.join(NAMES[key])}", ", ".join(map(str, row))[:60]
        )
    return known[0]


def _number(row: dict[str, Any], name: str, number: int, where: Path) -> float:
    try:
        value = float(row[name])
    except (KeyError, TypeError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        raise refuse(str(where), f"request {number + 1}: {name}", "a finite number", row.get(name))
    return value
