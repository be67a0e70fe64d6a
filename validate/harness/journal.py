"""Keeps the finished rows of a run, so an interrupted run can be continued. Each row is one line with a
checksum, which is flushed to the disk before the next row begins.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self

from perfmodel.errors import InputError
from perfmodel.reading import check_regular, parse_json, read_bytes
from perfmodel.validate.records.checksum import stamped
from perfmodel.writing import write


def encode(value: dict[str, Any]) -> str:
    """A value as one line of JSON. Equal values give equal bytes."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def as_record(header: str, rows: Sequence[str]) -> str:
    """The text of a record's file, with one row per line and a checksum.

    - header, rows: JSON texts.
    """
    return stamped(header.removesuffix("}") + ',\n"points":[\n' + ",\n".join(rows) + "\n]}\n")


class Journal(AbstractContextManager["Journal"]):
    """A file of lines ``<crc32> <json>``: a header, and then one line per row. It is locked, so that only one
    process can write it.

    If a crash truncated the last line, this line is removed when the journal is opened again. A fault in an
    earlier line is an error.
    """

    def __init__(self, path: Path) -> None:
        """Opens or creates the file and locks it. Raises InputError."""
        self.path = path
        self._texts = list[str]()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                check_regular(path)
            self._file = path.open("ab")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(f"{path}: is being written by another run") from None

    @classmethod
    def begin(cls, path: Path, header: dict[str, Any]) -> Self:
        """Begins a new journal and writes its header to the disk. Raises InputError if the file exists."""
        if path.exists():
            raise InputError(f"{path}: must be a new file, given one that exists")
        journal = cls(path)
        journal.add(header)
        return journal

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Opens an existing journal to continue it. Every complete line stays unchanged. Raises
        InputError.
        """
        journal = cls(path)  # locked before it is read: no other process is writing it
        try:
            data = read_bytes(path)
            lines = data.split(b"\n")
            torn = lines.pop()  # empty if the file ends with a line break
            journal._texts = [_checked(path, number, line) for number, line in enumerate(lines, 1)]
            if not journal._texts:
                raise InputError(
                    f"{path}: must hold a header; the run was cut off before it began: delete the file"
                )
            if torn:
                os.truncate(path, len(data) - len(torn))
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def header(self) -> dict[str, Any]:
        """The header with which the run began."""
        return json.loads(self._texts[0])

    @property
    def row_texts(self) -> list[str]:
        """The JSON text of every finished row, unchanged."""
        return self._texts[1:]

    def keys(self) -> set[str]:
        """Keys of the finished rows."""
        return {json.loads(text)["key"] for text in self.row_texts}

    def add(self, row: dict[str, Any]) -> None:
        """Appends the header or a finished row. It is on the disk when this method returns. Raises
        InputError.
        """
        text = encode(row)
        body = text.encode()
        try:
            self._file.write(b"%08x %s\n" % (zlib.crc32(body), body))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}; finished rows are kept for "
                "--resume"
            ) from None
        self._texts.append(text)

    def finish(self, rows: Sequence[str] | None = None, *, partial: bool = False) -> Path:
        """Writes the record next to the journal and deletes the journal. The record is written completely or
        not at all.

        - rows: the texts of the record's rows, if it does not get all rows.
        - partial: if True, the record states that it is incomplete, and the journal is kept for a resumed
          run.
        """
        path = self.path.with_suffix(".json")
        header = encode(self.header | {"partial": True}) if partial else self._texts[0]
        write(path, as_record(header, self.row_texts if rows is None else rows), "--results")
        self.close()
        if not partial:
            self.path.unlink()
        return path

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Data that could not be written to a full disk are lost."""
        with suppress(OSError):
            self._file.close()


def _checked(path: Path, number: int, line: bytes) -> str:
    """The JSON text of a line. Raises InputError if the line was changed or is no header or row."""
    crc, _, body = line.partition(b" ")
    if crc != b"%08x" % zlib.crc32(body):
        raise InputError(f"{path}: line {number}: must match its checksum; the file was changed or damaged")
    text = body.decode("utf-8", "replace")
    row = parse_json(f"{path}: line {number}", text)
    wanted = "a JSON object, with its key" if number > 1 else "a JSON object"
    keyed = isinstance(row, dict) and (number == 1 or isinstance(row.get("key"), str))
    if not keyed:
        raise InputError(f"{path}: line {number}: must be {wanted}")
    return text
