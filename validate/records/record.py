"""Own records, ``results/<machine>/*.json``: read and checked; `summary.py` makes the statistics.

Raw samples are all that a record holds. `records` leaves out what ``results/withdrawn.yaml`` lists.
"""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.errors import InputError
from perfmodel.specs import PACKAGE, files
from perfmodel.specs.model import ModelSpec

SCHEMA_VERSION = 1
RESULTS = (PACKAGE / "results").resolve()
Seconds = Annotated[float, Field(ge=0, lt=1e5, allow_inf_nan=False)]
Samples = Annotated[tuple[Seconds, ...], Field(min_length=1)]


class _Loose(BaseModel):
    """A record may say more than this reader needs; what it needs is checked."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Row(_Loose):
    """One row of a measurement: a point in one mode, with raw samples, or why there are none."""

    key: str
    status: Literal["ok", "out_of_memory", "failed"]
    mode: Literal["end_to_end", "phases"]
    target: str
    draft: str
    draft_kv: str
    batch: int = Field(ge=1)
    context: int = Field(ge=1)
    gamma: int = Field(ge=1)
    alpha: float = Field(ge=0, le=1)
    error: str | None = None
    iterations: int | None = Field(None, ge=1)
    samples: dict[str, Samples] = {}
    tokens: dict[str, tuple[int, ...]] = {}
    histogram: tuple[int, ...] | None = None
    mean_growth_tokens: float = 0.0
    peak_memory_bytes: int | None = None

    @property
    def point_key(self) -> str:
        """The point, whatever the mode."""
        return self.key.rpartition("/")[0]


class MicroRow(_Loose):
    """One row of a microbenchmark: a kernel at one size, seconds per call."""

    key: str
    status: Literal["ok", "out_of_memory", "failed"]
    kind: str
    at: dict[str, Any]
    error: str | None = None
    calls: int | None = None
    working_set_bytes: float = 0.0
    samples: dict[str, Samples] = {}

    @property
    def call_s(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples["call_s"])

    @property
    def best_s(self) -> float:
        """The fastest sample."""
        return min(self.samples["call_s"])


class _Record(_Loose):
    schema_version: int
    kind: Literal["measure", "microbench"]
    machine: str
    hardware: str
    commit: str = Field(pattern=r"^[0-9a-f]{8,40}$")
    dirty: bool
    plan: dict[str, Any]
    plan_sha256: str
    environment: dict[str, Any]
    protocol: dict[str, Any]
    points: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Record:
    """A record as it was written, its rows typed: `rows` of a measurement or `kernels` of a microbenchmark."""

    path: Path
    data: _Record
    rows: tuple[Row, ...]
    kernels: tuple[MicroRow, ...]

    @property
    def name(self) -> str:
        """``<machine>/<file>``: what a calibration's `fitted_on` and a comparison call the set."""
        return f"{self.data.machine}/{self.path.stem}"

    @property
    def shapes(self) -> dict[str, ModelSpec]:
        """The models as they were when it was measured."""
        return {name: files.parse(ModelSpec, shape, str(self.path)) for name, shape in self.data.plan["shapes"].items()}

    def failures(self) -> tuple[Row | MicroRow, ...]:
        """Rows without a time."""
        rows: list[Row | MicroRow] = [*self.rows, *self.kernels]
        return tuple(row for row in rows if row.status != "ok")


def read_record(path: Path) -> Record:
    """Read and check one file. Raises InputError naming file and key; a newer schema is refused."""
    raw = files.read_mapping(path)
    version = raw.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version: must be at most {SCHEMA_VERSION}, given {version!r}: update perfmodel"
        )
    data = files.parse(_Record, raw, str(path))
    kind: type[Row] | type[MicroRow] = Row if data.kind == "measure" else MicroRow
    rows: list[Any] = []
    seen: set[str] = set()
    for number, entry in enumerate(data.points):
        row = files.parse(kind, entry, f"{path}: points.{number}")
        if row.key in seen:
            raise InputError(f"{path}: points.{number}: key: must be given once, given {row.key!r} again")
        if row.status == "ok" and not row.samples:
            raise InputError(f"{path}: points.{number}: samples: must be there where status is ok")
        seen.add(row.key)
        rows.append(row)
    measured = tuple(rows)
    return Record(path, data, measured if kind is Row else (), measured if kind is MicroRow else ())


class _Withdrawal(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    reason: str = Field(min_length=8)


class _Withdrawn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1]
    withdrawn: tuple[_Withdrawal, ...]


def withdrawn(results: Path = RESULTS) -> dict[str, str]:
    """``<machine>/<file>.json`` -> why it counts no longer."""
    path = results / "withdrawn.yaml"
    if not path.exists():
        return {}
    listed = files.parse(_Withdrawn, files.read_mapping(path), str(path)).withdrawn
    for entry in listed:
        if not (results / entry.file).is_file():
            raise InputError(f"{path}: withdrawn: must name files of {results.name}/, given {entry.file!r}")
    return {entry.file: entry.reason for entry in listed}


def records(results: Path = RESULTS, machine: str | None = None) -> tuple[Record, ...]:
    """All records that count, oldest first within a machine."""
    gone = withdrawn(results)
    found = sorted(results.glob(f"{machine or '*'}/[0-9]*T[0-9]*Z-*.json"))
    return tuple(read_record(path) for path in found if f"{path.parent.name}/{path.name}" not in gone)


def newest(path: Path, kind: str, flag: str) -> Path:
    """The path of a record of a kind (``measure``, ``microbench``); of a folder, that of its newest."""
    if not path.is_dir():
        if (given := read_record(path).data.kind) != kind:
            raise InputError(f"{flag}: {path} must be of kind {kind}, given {given}")
        return path
    found = latest(records(path.parent, path.name), kind)
    if found is None:
        raise InputError(f"{flag}: {path} must hold a record of kind {kind}")
    return found.path


def latest(found: Iterable[Record], kind: str) -> Record | None:
    """The newest record of a kind."""
    return next((r for r in sorted(found, key=lambda r: r.path.name, reverse=True) if r.data.kind == kind), None)
