"""Finds, reads and checks own records, ``results/<machine>/*.json``. ``results/withdrawn.yaml`` lists records
that are no longer used.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.errors import InputError, refuse
from perfmodel.reading import PACKAGE, data_folder, read_text
from perfmodel.specs import Frozen, files
from perfmodel.validate.records.checksum import check_record
from perfmodel.validate.records.schema import SCHEMA_VERSION, KernelRecord, KernelRow, PointRecord, PointRow

BUNDLED = data_folder("results").resolve()
"""The folder of the results that come with the code."""
IN_CHECKOUT = (PACKAGE.parent / "pyproject.toml").is_file()
"""Whether the code runs from a checkout and not from an installed package."""
RESULTS = BUNDLED if IN_CHECKOUT else Path("results")
"""Default folder of own records: ``results/`` in a checkout, or otherwise in the current folder. Files are
never written into an installed package.
"""
KINDS: dict[str, type[PointRecord | KernelRecord]] = {"measure": PointRecord, "microbench": KernelRecord}
"""Kind of record -> its class."""


def machine_folder(label: str, results: Path = RESULTS) -> Path:
    """The folder ``results/<machine>``. Raises InputError for a label with other characters than lower-case
    letters, digits and dashes.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", label) or label == "published":
        raise refuse(
            "--machine", None, "a label of a-z, 0-9 and -, such as h200-1 (never a host name)", label
        )
    return results / label


@dataclass(frozen=True)
class Record:
    """A record and its path."""

    path: Path
    data: PointRecord | KernelRecord

    @property
    def name(self) -> str:
        """``<machine>/<file>``, the name of the record in comparisons and in a calibration's `fitted_on`."""
        return f"{self.data.machine}/{self.path.stem}"

    @property
    def hardware(self) -> str:
        """The device of the predictions, by name or path."""
        return beside(self.path, self.data.hardware)

    @property
    def calibration(self) -> str | None:
        """The calibration of the run's predictions, as a name or path; None for the device's own.

        If the named file no longer exists, it is the bundled calibration with the name of this file.
        """
        named = self.data.calibration
        if named is None or not files.looks_like_path(file := beside(self.path, named)):
            return named
        return file if Path(file).is_file() else Path(file).stem

    @property
    def rows(self) -> tuple[PointRow, ...]:
        """The rows of a measurement; empty for a microbenchmark."""
        return self.data.points if isinstance(self.data, PointRecord) else ()

    @property
    def kernels(self) -> tuple[KernelRow, ...]:
        """The rows of a microbenchmark; empty for a measurement."""
        return self.data.points if isinstance(self.data, KernelRecord) else ()

    def failures(self) -> tuple[PointRow | KernelRow, ...]:
        """Rows without a time."""
        return tuple(row for row in self.data.points if row.status != "ok")


def beside(record: Path, name: str) -> str:
    """The path of the file that a record names. It is relative to the folder of the record, or next to the
    record if both were moved. A name without such a file is returned unchanged.
    """
    paths = (record.parent / name, record.parent / Path(name).name) if files.looks_like_path(name) else ()
    return next((str(path) for path in paths if path.is_file()), name)


def read_record(path: Path) -> Record:
    """Reads and checks one record. Raises InputError, which names the file and the key, also for another
    schema version.
    """
    raw = files.read_mapping(path)
    check_record(path, read_text(path))
    if raw.get("schema_version") != SCHEMA_VERSION:
        allowed = f"{SCHEMA_VERSION} (other versions are read by the perfmodel that wrote them)"
        raise refuse(str(path), "schema_version", allowed, raw.get("schema_version"))
    kind = str(raw.get("kind"))
    if kind not in KINDS:
        raise refuse(str(path), "kind", " or ".join(KINDS), kind)
    return Record(path, files.parse(KINDS[kind], raw, str(path)))


class _Withdrawal(Frozen):
    file: str
    reason: Annotated[str, Meta(min_length=8)]


class _Withdrawn(Frozen):
    schema_version: Literal[1]
    withdrawn: tuple[_Withdrawal, ...]


def withdrawn(results: Path = RESULTS) -> dict[str, str]:
    """``<machine>/<file>.json`` of each withdrawn record -> the reason."""
    path = results / "withdrawn.yaml"
    if not path.exists():
        return {}
    listed = files.parse(_Withdrawn, files.read_mapping(path), str(path)).withdrawn
    there = {str(path.relative_to(results)) for path in results.glob("*/*.json")}
    for entry in listed:
        if entry.file not in there:
            raise refuse(str(path), "withdrawn", f"names of files of {results.name}/", entry.file)
    return {entry.file: entry.reason for entry in listed}


def records(results: Path = RESULTS, machine: str | None = None) -> tuple[Record, ...]:
    """All records that are not withdrawn. Those of a machine are sorted by age, beginning with the oldest."""
    gone = withdrawn(results)
    paths = sorted(results.glob(f"{machine or '*'}/[0-9]*T[0-9]*Z-*.json"))
    return tuple(read_record(path) for path in paths if f"{path.parent.name}/{path.name}" not in gone)


def latest(candidates: Iterable[Record], kind: str) -> Record | None:
    """The newest record of a kind; None if there is none."""
    of_kind = [record for record in candidates if record.data.kind == kind]
    return max(of_kind, key=lambda record: record.path.name, default=None)


def newest(path: Path, kind: str, flag: str, results: Path = RESULTS) -> Record:
    """The record at a path, or the newest record of a kind in a folder.

    - kind: ``measure`` or ``microbench``.
    - path: a file, a folder, or the label of a machine.
    - flag: the flag that error messages name.

    Raises InputError.
    """
    if not path.exists() and (results / path).is_dir():
        path = results / path
    if not path.is_dir():
        given = read_record(path)
        if given.data.kind != kind:
            raise InputError(f"{flag}: {path} must be of kind {kind}, given {given.data.kind}")
        return given
    if record := latest(records(path.parent, path.name), kind):
        return record
    raise InputError(f"{flag}: {path} must hold a record of kind {kind}")
