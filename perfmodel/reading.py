"""The one way to read a file: a regular file, up to a stated size; anything else is one line that names it."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perfmodel.errors import MOST_LISTED, InputError

MAX_BYTES = 512 * 2**20
"""The most that is read of a file where its reader states no less."""


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """All of a file. Raises InputError for one that is missing, not regular (a pipe, a device), or above `most`."""
    try:
        check_regular(path)
        size = path.stat().st_size
        with path.open("rb") as stream:
            data = stream.read(most + 1) if size <= most else b""
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a zero byte in its name
        raise InputError(f"{path}: must be a readable file: {getattr(error, 'strerror', None) or error}") from None
    if size > most or len(data) > most:
        raise InputError(f"{path}: must be at most {most} bytes, given {max(size, len(data))}")
    return data


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The same as text, line ends as they are. Raises InputError, also for what is not UTF-8."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be valid UTF-8 text: byte {error.start} is not") from None


def check_regular(path: Path) -> None:
    """Refuse (InputError) what is not a regular file: reading a pipe or a device may never end."""
    try:
        if path.is_file():
            return
        found = "something else of this name" if path.exists() else "no file of this name"
    except (OSError, ValueError) as error:
        found = str(getattr(error, "strerror", None) or error)
    raise InputError(f"{path}: must be a readable file, and there is {found}")


def parse_json(where: str, text: str) -> Any:
    """Any JSON value. Raises InputError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: must be valid JSON: {str(error)[:100]}") from None


def read_csv(path: Path, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """(line, column -> cell) of every row. Raises InputError for other columns, or a row of more or fewer cells."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
        rows: list[tuple[int, dict[Any, Any]]] = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise InputError(f"{path}: must be a readable CSV file: {error}") from None
    header, wanted = list(reader.fieldnames or ()), list(columns)
    if sorted(header) != sorted(wanted):
        missing = sorted(set(wanted) - set(header))
        extra = [name[:40] for name in sorted(set(header) - set(wanted))[:MOST_LISTED]]
        raise InputError(
            f"{path}: line 1: must have each of the columns {', '.join(wanted)} once; "
            f"missing {', '.join(missing) or 'none'}, unknown {', '.join(extra) or 'none'}"
        )
    for line, cells in rows:
        if None in cells or None in cells.values():
            place = f"{path}: line {line} (row {cells.get('id') or '?'})"
            raise InputError(f"{place}: must have one cell for each column of line 1, given more or fewer")
    return rows
