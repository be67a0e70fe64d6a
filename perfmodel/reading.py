"""Finds and reads all files: regular ones, up to a stated size. All else becomes one line that names it."""

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from perfmodel.errors import MOST_LISTED, InputError

Row = TypeVar("Row")
PACKAGE = Path(__file__).parent
"""The folder of the package `perfmodel`."""
MAX_BYTES = 512 * 2**20
"""Largest file, unless its reader states less."""


@cache
def data_folder(name: str) -> Path:
    """The folder ``models``, ``hardware`` or ``results``: inside an installed package, or next to it in a
    clone.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The whole content of a file. Raises InputError for one that is missing, not regular (a pipe, a device),
    or larger than `most`.
    """
    try:
        check_regular(path)
        size = path.stat().st_size
        with path.open("rb") as stream:
            data = stream.read(most + 1) if size <= most else b""
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a zero byte in its name
        raise InputError(
            f"{path}: must be a readable file: {getattr(error, 'strerror', None) or error}"
        ) from None
    if size > most or len(data) > most:
        raise InputError(f"{path}: must be at most {most} bytes, given {max(size, len(data))}")
    return data


def read_head(path: Path, count: int) -> bytes:
    """The first bytes of a file, at most `count`. Raises InputError for one that is missing or not
    regular.
    """
    try:
        check_regular(path)
        with path.open("rb") as stream:
            return stream.read(count)
    except OSError as error:
        raise InputError(f"{path}: must be a readable file: {error.strerror or error}") from None


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The same as text with unchanged line ends. Raises InputError, also for text that is not UTF-8."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be valid UTF-8 text: byte {error.start} is not") from None


def check_regular(path: Path) -> None:
    """Refuse (InputError) anything but a regular file, because reading a pipe or a device may never end."""
    try:
        if path.is_file():
            return
        found = "it is a folder, pipe or device" if path.exists() else "there is no file of this name"
    except (OSError, ValueError) as error:
        found = f"reading fails: {getattr(error, 'strerror', None) or error}"
    raise InputError(f"{path}: must be a readable file, but {found}")


def parse_json(where: str, text: str) -> Any:
    """Any JSON value. Raises InputError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: must be valid JSON: {str(error)[:100]}") from None


def csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    """(line number, cells) of every row of a CSV file, including its header. Raises InputError."""
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
        return [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise InputError(f"{path}: must be a readable CSV file: {error}") from None


def read_csv(path: Path, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """(line, column -> cell) of every row. Raises InputError for other columns, and for a row with more or
    fewer cells.
    """
    (first, header), *lines = csv_lines(path) or [(1, [])]
    wanted = list(columns)
    if sorted(header) != sorted(wanted):
        missing = sorted(set(wanted) - set(header))
        extra = [name[:40] for name in sorted(set(header) - set(wanted))[:MOST_LISTED]]
        raise InputError(
            f"{path}: line {first}: must have each of the columns {', '.join(wanted)} once; "
            f"missing {', '.join(missing) or 'none'}, unknown {', '.join(extra) or 'none'}"
        )
    rows = []
    for line, cells in lines:
        if not cells:
            continue
        row = dict(zip(header, cells, strict=False))
        if len(cells) != len(header):
            place = f"{path}: line {line} (row {(row.get('id') or '?')[:40]})"
            raise InputError(f"{place}: must have one cell for each column of line 1, given more or fewer")
        rows.append((line, row))
    return rows


def read_rows(path: Path, row_type: type[Row], **having: str) -> tuple[Row, ...]:
    """Rows of a CSV file whose columns are the fields of a dataclass: texts, numbers, yes or no; blank is
    None or "".

    A field with a default is not a column. having: column -> cell of the wanted rows, possibly none; other
    rows are not checked. Raises InputError naming file, line, row and column, for a cell of another type, a
    repeated `id`, and a file without rows.
    """
    types = {f.name: f.type for f in fields(row_type) if f.default is MISSING}  # type: ignore[arg-type]
    typed = {name: get_args(each) or (each,) for name, each in types.items() if each is not str}
    rows = []
    ids = set[str]()
    for line, texts in read_csv(path, types):
        if not having.items() <= texts.items():
            continue
        cells: dict[str, Any] = {**texts}
        place = f"{path}: line {line} (row {cells.get('id', '?')[:40]})"
        for name, cell_types in typed.items():
            blank = not texts[name] and len(cell_types) > 1
            cells[name] = None if blank else _cell(place, name, cell_types[0], texts[name])
        rows.append(row_type(**cells))
        if (name := cells.get("id", str(line))) in ids:
            raise InputError(f"{place}: id: must be given once in a file")
        ids.add(name)
    if not rows and not having:
        raise InputError(f"{path}: must hold at least one row, given a header only")
    return tuple(rows)


_WORDS = {int: "a whole number", float: "a finite number", bool: "yes or no", str: "given"}


def _cell(place: str, column: str, plain: Any, text: str) -> Any:
    """One cell as its column's type."""
    try:
        value = {"yes": True, "no": False}[text] if plain is bool else plain(text)
    except (ValueError, KeyError):
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place}: {column}: must be {_WORDS[plain]}, given {text[:60]!r}")
    return value
