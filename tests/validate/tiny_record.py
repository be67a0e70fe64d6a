"""A tiny plan measured, and a record with other rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perfmodel.cli import run
from perfmodel.validate.records.schema import KernelRow, PointRow
from perfmodel.validate.records.store import Record, read_record
from tests.validate.tiny_plan import write


def command(plan: Path, results: Path, *more: str) -> list[str]:
    return ["validate", "measure", str(plan), "--machine", "t-1", "--results", str(results), *more]


def measured(folder: Path, *more: str, status: int = 0, **changes: Any) -> Record:
    """The record of a tiny plan with some changes, in `t-1` of the folder."""
    assert run(command(write(folder, **changes), folder, *more)) == status
    (path,) = folder.glob("t-1/*.json")
    return read_record(path)


def changed(record: Record, rows: Iterable[PointRow | KernelRow]) -> Record:
    return Record(record.path, record.data.model_copy(update={"points": tuple(rows)}))
