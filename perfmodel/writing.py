"""The one way to write a file: its place is checked before the work, and it appears whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

from perfmodel.errors import InputError, refuse


def destination(path: str | Path, *suffixes: str, flag: str = "--output") -> Path:
    """Where a file is to go. Raises InputError naming `flag` for another suffix, or a folder that is not there."""
    where = Path(path)
    if where.suffix.lower() not in suffixes:
        raise refuse(flag, None, f"a file name ending in {' or '.join(suffixes)}", where.name)
    if not where.parent.is_dir():
        raise refuse(flag, None, "in a folder that exists", str(where))
    return where


def write(where: Path, content: bytes | Callable[[Path], object], flag: str = "--output") -> None:
    """Put bytes, or what a function writes into the path it is given, in place of a file. Raises InputError."""
    fresh = where.with_name(f".{where.stem}.new{where.suffix}")
    try:
        fresh.write_bytes(content) if isinstance(content, bytes) else content(fresh)
        os.replace(fresh, where)
    except OSError as error:
        raise InputError(f"{flag}: {where}: cannot be written: {error.strerror or error}") from None
    finally:
        if fresh.is_file():
            fresh.unlink()
