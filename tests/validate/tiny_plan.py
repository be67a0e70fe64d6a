"""A tiny plan on the CPU, the command that measures it, and its record."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from perfmodel.cli import run
from perfmodel.validate.records import KernelRow, Plan, PointRow, Record, load_plan, read_record

BLOCK: dict[str, Any] = {
    "target": "tiny",
    "draft_kv": ["streamingllm:16"],
    "batch": [1, 2],
    "context": [64],
    "gamma": [2],
    "alpha": 0.8,
}
"""Two points of a grid."""
TINY: dict[str, Any] = {
    "schema_version": 1,
    "name": "test-tiny",
    "title": "A tiny plan for tests",
    "device": "cpu",
    "hardware": "h100-sxm-80gb",
    "threads": 1,
    "grid": [BLOCK],
    "protocol": {"iterations": 1},
}


def write_plan(folder: Path, **changes: object) -> Path:
    """The file of the tiny plan with some keys changed."""
    path = folder / "plan.yaml"
    plain = json.loads(json.dumps({**TINY, **changes}))
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return path


def planned(folder: Path, **changes: object) -> Plan:
    """The tiny plan with some keys changed."""
    return load_plan(str(write_plan(folder, **changes)))


def measure_command(plan: Path, results: Path, *more: str) -> list[str]:
    """The command that measures a plan as machine `t-1`."""
    return ["validate", "measure", str(plan), "--machine", "t-1", "--results", str(results), *more]


def measured(folder: Path, *more: str, status: int = 0, **changes: Any) -> Record:
    """The record of a tiny plan with some changes, in `t-1` of the folder."""
    assert run(measure_command(write_plan(folder, **changes), folder, *more)) == status
    (path,) = folder.glob("t-1/*.json")
    return read_record(path)


def with_rows(record: Record, rows: Iterable[PointRow | KernelRow]) -> Record:
    """The record with other rows."""
    return Record(record.path, record.data.replace(points=tuple(rows)))
