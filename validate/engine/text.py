"""Files that other programs wrote, as text or JSON; whatever is wrong with one becomes one line that names it."""

import json
from pathlib import Path
from typing import Any, TypeGuard

from perfmodel.errors import InputError
from perfmodel.specs.files import one_line

MAX_BYTES = 512 * 2**20
"""Detailed benchmark files hold every token's time; beyond this they are not read."""
MAX_COUNT = 1e18
"""Sums of numbers up to this stay finite."""


def read_text(path: Path) -> str:
    """The text of a regular file. Raises InputError."""
    try:
        if not path.is_file():
            raise InputError(one_line(f"{path}: must be a readable text file, and there is no file of this name"))
        if path.stat().st_size > MAX_BYTES:
            raise InputError(one_line(f"{path}: must be at most {MAX_BYTES} bytes, given {path.stat().st_size}"))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(one_line(f"{path}: must be a readable text file: {error}")) from None


def parse_json(where: str, text: str) -> Any:
    """Any JSON value. Raises InputError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: must be valid JSON: {one_line(str(error))[:100]}") from None


def parse_objects(where: str, text: str) -> list[dict[str, Any]]:
    """One JSON object, a list of them, or one a line. Raises InputError."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        data = [parse_json(f"{where}: line {n}", line) for n, line in lines]
    objects = data if isinstance(data, list) else [data]
    if not objects or not all(isinstance(item, dict) for item in objects):
        raise InputError(f"{where}: must hold JSON objects, one for each request")
    return objects


def is_count(value: object) -> TypeGuard[float]:
    """A finite number from 0 on."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
