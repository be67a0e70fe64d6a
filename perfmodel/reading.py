"""All files are read through this module. It reads regular files up to a given size. For any other file, it
raises an error whose one-line message names the file.

A server that answers other people's questions reads only bundled files, and files of one folder that its
owner names (`only`).
"""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar, get_args

from perfmodel.errors import MOST_LISTED, InputError, UnreadableError, shortened

Row = TypeVar("Row")
PACKAGE = Path(__file__).parent
"""The folder of the package `perfmodel`."""
MAX_BYTES = 512 * 2**20
"""Size limit of a file in bytes, unless the caller gives a smaller limit."""
MAX_LINE_CHARACTERS = 2**20
"""Length limit of a line, for tables that are read line by line."""
SYSTEM = tuple(map(Path, ("/proc", "/dev", "/sys")))
"""System folders, whose files are refused. They contain devices and the environment of processes."""
_OPEN_TO = ContextVar[tuple[Path, ...] | None]("folders that may be read", default=None)
"""None means all folders."""


@cache
def data_folder(name: str) -> Path:
    """The path of the folder ``models``, ``hardware`` or ``results``. The folder is inside an installed
    package, or next to the package in a clone.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


@contextmanager
def only(folder: Path | None) -> Iterator[None]:
    """Inside this context, only bundled files and the files in `folder` can be read. If `folder` is None,
    only bundled files can be read.
    """
    bundled = (PACKAGE, *map(data_folder, ("models", "hardware", "results")))
    folders = bundled if folder is None else (*bundled, folder)
    token = _OPEN_TO.set(tuple(Path(os.path.realpath(each)) for each in folders))
    try:
        yield
    finally:
        _OPEN_TO.reset(token)


def check_place(path: Path) -> None:
    """Raises UnreadableError for files in system folders, and for all files outside the folders of `only`."""
    try:
        real = Path(os.path.realpath(path))
        places = (Path(os.path.abspath(path)), real)
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path}: must be a readable file: {error}") from None
    if any(place.is_relative_to(system) for place in places for system in SYSTEM):
        raise UnreadableError(f"{path}: must not be a file of the system ({', '.join(map(str, SYSTEM))})")
    folders = _OPEN_TO.get()
    if folders is not None and not any(real.is_relative_to(folder) for folder in folders):
        raise UnreadableError(
            f"{path}: must be a bundled name, or a file in the folder that the owner of this server names "
            "(`--files DIR`)"
        )


def is_folder(path: Path | str) -> bool:
    """Whether the path is a folder that may be read."""
    return os.path.isdir(path) and _visible(path)


def is_file(path: Path | str) -> bool:
    """Whether the path is a regular file in a folder that may be read."""
    return os.path.isfile(path) and _visible(path)


def exists(path: Path | str) -> bool:
    """Whether the path is a file or a folder that may be read."""
    return os.path.exists(path) and _visible(path)


def _visible(path: Path | str) -> bool:
    try:
        check_place(Path(path))
    except UnreadableError:
        return False
    return True


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The whole content of a file.

    Raises InputError for a file that is missing, that is not regular (such as a pipe or a device), or that is
    larger than `most` bytes.
    """
    with opened(path, most, mode="rb") as stream:
        data: bytes = stream.read(most + 1)
    if len(data) > most:
        raise UnreadableError(f"{path}: must be at most {most} bytes, given {len(data)}")
    return data


@contextmanager
def opened(path: Path, most: int = MAX_BYTES, **how: Any) -> Iterator[IO[Any]]:
    """Opens a regular file as a stream, for use in a ``with`` statement.

    - how: arguments of `Path.open`.

    Raises InputError for a file that is missing, not regular, not permitted, or larger than `most` bytes.
    """
    check_regular(path)
    try:
        size = path.stat().st_size
        if size > most:
            raise UnreadableError(f"{path}: must be at most {most} bytes, given {size}")
        with path.open(**how) as stream:
            yield stream
    except OSError as error:
        raise UnreadableError(f"{path}: must be a readable file: {error.strerror or error}") from None


def lines_of(path: Path, stream: IO[str]) -> Iterator[str]:
    """Yields the lines of a text stream. Raises InputError for a line longer than `MAX_LINE_CHARACTERS`."""
    number = 0
    while line := stream.readline(MAX_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARACTERS:
            raise InputError(f"{path}: line {number}: must be at most {MAX_LINE_CHARACTERS} characters long")
        yield line


def read_head(path: Path, count: int) -> bytes:
    """The first bytes of a file, at most `count`. Raises InputError for a file that is missing or not
    regular.
    """
    check_regular(path)
    try:
        with path.open("rb") as stream:
            return stream.read(count)
    except OSError as error:
        raise UnreadableError(f"{path}: must be a readable file: {error.strerror or error}") from None


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The whole content of a file as text, with unchanged line ends. Raises InputError as `read_bytes` does,
    and also for text that is not UTF-8.
    """
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be valid UTF-8 text: byte {error.start} is not") from None


def check_regular(path: Path) -> None:
    """Raises InputError for a path that is not a regular file, because reading a pipe or a device may never
    end.
    """
    check_place(path)
    try:
        if path.is_file():
            return
        fault = "it is a folder, pipe or device" if path.exists() else "there is no file of this name"
    except (OSError, ValueError) as error:
        fault = f"reading fails: {getattr(error, 'strerror', None) or error}"
    raise UnreadableError(f"{path}: must be a readable file, but {fault}")


def parse_json(where: str, text: str) -> Any:
    """The value of a JSON text. Raises InputError if the text is not valid JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: must be valid JSON: {str(error)[:100]}") from None


def csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    """The line number and the cells of every row of a CSV file, including its header. Raises InputError if
    the file cannot be read.
    """
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
        return [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise InputError(f"{path}: must be a readable CSV file: {error}") from None


def read_csv(path: Path, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """The line number and the cells by column of every row of a CSV file. Raises InputError if the file has
    other columns than `columns`, or if a row has more or fewer cells than the header.
    """
    (first, header), *lines = csv_lines(path) or [(1, [])]
    wanted = list(columns)
    if sorted(header) != sorted(wanted):
        if not set(header) & set(wanted):
            raise InputError(f"{path}: line {first}: must have the columns {', '.join(wanted)}, and has none")
        missing = sorted(set(wanted) - set(header))
        extra = [shortened(name) for name in sorted(set(header) - set(wanted))[:MOST_LISTED]]
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
            place = f"{path}: line {line} (row {shortened(row.get('id') or '?')})"
            raise InputError(f"{place}: must have one cell for each column of line 1, given more or fewer")
        rows.append((line, row))
    return rows


def read_rows(path: Path, row_type: type[Row], **having: str) -> tuple[Row, ...]:
    """The rows of a CSV file as objects of a dataclass, whose fields are the columns. A cell is a text, a
    number, yes or no, or a member of an enum of texts. A blank cell is None, or "" for a text.

    A field with a default value is not a column.

    - having: the cells by column that a row must have to be returned. Other rows are not checked. The result
      may be empty.

    Raises InputError for a cell of another type, a repeated `id`, or a file without rows. The message names
    the file, line, row and column.
    """
    types = {f.name: f.type for f in fields(row_type) if f.default is MISSING}  # type: ignore[arg-type]
    typed = {name: get_args(each) or (each,) for name, each in types.items() if each is not str}
    rows = []
    ids = set[str]()
    for line, texts in read_csv(path, types):
        if not having.items() <= texts.items():
            continue
        cells: dict[str, Any] = {**texts}
        place = f"{path}: line {line} (row {shortened(cells.get('id', '?'))})"
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


_WORDS = {int: "a whole number", float: "a finite number", bool: "yes or no"}
"""What a cell must be, by the type of its column."""


def _cell(place: str, column: str, plain: Any, text: str) -> Any:
    """Converts a cell to the type of its column."""
    try:
        value = {"yes": True, "no": False}[text] if plain is bool else plain(text)
    except (ValueError, KeyError):
        value = None
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if value is None or is_infinite:
        allowed = _WORDS.get(plain) or f"one of {', '.join(plain)}"
        raise InputError(f"{place}: {column}: must be {allowed}, given {shortened(text)!r}")
    return value
