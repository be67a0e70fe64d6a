"""The files a sweep writes: CSV or Parquet, whole when they appear under their name, and resumable until then.

Beside ``OUT`` an unfinished run keeps ``OUT.part`` (rows so far) and ``OUT.part.json`` (whose they are, and how many
blocks are complete).
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.answers.sweep import COLUMNS, LABELS, WHOLE, Block, Sink
from perfmodel.errors import InputError
from perfmodel.lock import Lock
from perfmodel.reading import check_regular, parse_json, read_text
from perfmodel.writing import destination, no_formula, write

DIGITS = 13
CHUNK_BYTES = 2**20


def sink_for(path: Path) -> Sink:
    """The sink for a file name. Raises InputError for a suffix other than .csv and .parquet, or without pyarrow."""
    if destination(path, ".csv", ".parquet").suffix.lower() == ".csv":
        return CsvSink(path)
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            "--output: Parquet needs pyarrow, which is not installed: pip install pyarrow, or ask for .csv"
        ) from None
    return ParquetSink(path)


class _Unfinished:
    """The unfinished file of one name, its record, and the lock on both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.record = path.with_name(path.name + ".part.json")
        self.fingerprint = ""
        self.blocks = self.rows = 0
        self.lock: Lock | None = None

    def open(self, fingerprint: str, *, resume: bool, overwrite: bool) -> int:
        """Blocks that are complete. Raises InputError rather than lose or mix anything that is there."""
        self.lock = Lock(self.path)
        if self.path.exists() and not overwrite:
            raise InputError(f"--output: {self.path} exists; --overwrite replaces it")
        self.fingerprint = fingerprint
        if self.record.exists() and not overwrite:
            if not resume:
                raise InputError(
                    f"--output: {self.part} is an interrupted sweep; --resume goes on with it, --overwrite starts again"
                )
            self.blocks, self.rows = self._resumed()
        else:
            self.blocks = self.rows = 0
            self.discard()
        return self.blocks

    def _resumed(self) -> tuple[int, int]:
        try:
            kept = parse_json(str(self.record), read_text(self.record, CHUNK_BYTES))
            numbers = [kept[key] for key in ("blocks", "rows", "bytes")]
            good = all(type(number) is int and 0 <= number < 2**63 for number in numbers)
        except (InputError, KeyError, TypeError):
            good = False
        if not good:
            raise InputError(f"--resume: {self.record} is damaged; --overwrite starts again") from None
        blocks, rows, size = numbers
        if kept.get("fingerprint") != self.fingerprint:
            raise InputError(f"--resume: {self.part} belongs to another question; ask the same one, or --overwrite")
        if not self.part.exists() or (self.part.is_file() and self.part.stat().st_size < size):
            raise InputError(f"--resume: {self.part} is shorter than its record says; --overwrite starts again")
        if not self.part.is_dir():
            check_regular(self.part)
            os.truncate(self.part, size)
        return blocks, rows

    def save(self, size: int) -> None:
        """Note what is complete: blocks, rows, and `size` bytes in all."""
        kept = {"fingerprint": self.fingerprint, "blocks": self.blocks, "rows": self.rows, "bytes": size}
        fresh = self.record.with_name(self.record.name + ".new")  # not on the disk yet: a sweep can be worked out again
        fresh.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(fresh, self.record)

    def check(self, found: int, rows: int) -> None:
        """Refuse to call a file whole that holds other than the rows of the question."""
        if not found == self.rows == rows:
            raise InputError(
                f"--output: {self.part} holds {found} rows of {rows}: something else wrote into it; "
                "--overwrite starts again"
            )

    def discard(self) -> None:
        """Remove what an interrupted run has left."""
        self.record.unlink(missing_ok=True)
        shutil.rmtree(self.part) if self.part.is_dir() else self.part.unlink(missing_ok=True)

    def leave(self) -> None:
        """Let another run have it."""
        if self.lock is not None:
            self.lock.release()


class CsvSink:
    """Rows as text, `DIGITS` significant digits; a missing alpha is an empty cell."""

    def __init__(self, path: Path) -> None:
        self.left = _Unfinished(path)

    def open(self, fingerprint: str, *, resume: bool, overwrite: bool) -> int:
        """See `Sink`."""
        done = self.left.open(fingerprint, resume=resume, overwrite=overwrite)
        if not done:
            self.left.part.write_bytes(b"")
            self._append(",".join((*LABELS, *COLUMNS)) + "\n")
        return done

    def write(self, block: Block) -> None:
        """Append one block's rows."""
        labels = (_cell(block.labels[name]) for name in LABELS)
        row = ",".join((*labels, *("%d" if name in WHOLE else f"%.{DIGITS}g" for name in COLUMNS))) + "\n"
        values = np.stack([block.columns[name] for name in COLUMNS], axis=1)
        self.left.blocks += 1
        self.left.rows += block.rows
        self._append(row * block.rows % tuple(values.reshape(-1).tolist()))

    def close(self, rows: int) -> None:
        """Give the file its name, the head and `rows` lines being in it."""
        with self.left.part.open("rb") as file:
            lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK_BYTES), b""))
        self.left.check(lines - 1, rows)
        os.replace(self.left.part, self.left.path)
        self.left.discard()

    def leave(self) -> None:
        """See `Sink`."""
        self.left.leave()

    def _append(self, text: str) -> None:
        with self.left.part.open("ab") as file:
            file.write(text.encode())
            size = file.tell()
        self.left.save(size)


class ParquetSink:
    """One file per block until all are there, then one file with a row group each."""

    def __init__(self, path: Path) -> None:
        self.left = _Unfinished(path)

    def open(self, fingerprint: str, *, resume: bool, overwrite: bool) -> int:
        """See `Sink`."""
        done = self.left.open(fingerprint, resume=resume, overwrite=overwrite)
        self.left.part.mkdir(exist_ok=True)
        self.left.save(0)
        return done

    def write(self, block: Block) -> None:
        """Keep one block."""
        import pyarrow as pa
        from pyarrow import parquet

        arrays = {name: pa.array([block.labels[name]] * block.rows, _label_type(pa, name)) for name in LABELS}
        for name in COLUMNS:
            arrays[name] = pa.array(block.columns[name].astype(np.int64) if name in WHOLE else block.columns[name])
        parquet.write_table(pa.table(arrays), self._file(self.left.blocks))
        self.left.blocks += 1
        self.left.rows += block.rows
        self.left.save(0)

    def close(self, rows: int) -> None:
        """Join the blocks, `rows` rows, under the file's name."""
        write(self.left.path, lambda fresh: self._join(fresh, rows))
        self.left.discard()

    def _join(self, fresh: Path, rows: int) -> None:
        from pyarrow import ArrowException, parquet

        try:
            with parquet.ParquetWriter(fresh, parquet.read_schema(self._file(0))) as writer:
                for number in range(self.left.blocks):
                    writer.write_table(parquet.read_table(self._file(number)))
        except (ArrowException, ValueError) as error:
            raise InputError(f"--output: {self.left.part} is damaged ({error}); --overwrite starts again") from None
        self.left.check(parquet.read_metadata(fresh).num_rows, rows)

    def leave(self) -> None:
        """See `Sink`."""
        self.left.leave()

    def _file(self, number: int) -> Path:
        return self.left.part / f"{number:08d}.parquet"


def _label_type(pa: Any, name: str) -> Any:
    return pa.float64() if name == "alpha" else pa.int64() if name in ("tp", "draft_tp") else pa.string()


def _cell(value: str | int | float | None) -> str:
    """One label as a CSV cell inside a %-format."""
    text = "" if value is None else no_formula(value) if isinstance(value, str) else str(value)
    if any(c in text for c in ',"\r\n'):
        text = '"' + text.replace('"', '""') + '"'
    return text.replace("%", "%%")
