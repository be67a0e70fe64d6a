"""Text of other programs as JSON objects. Any fault in it becomes one line that names its place."""

import json
import math
from collections.abc import Iterable
from typing import Any, TypeGuard

from perfmodel.errors import InputError
from perfmodel.reading import parse_json

MAX_COUNT = 1e18
"""Largest number in a text. Sums of such numbers stay finite."""


def parse_objects(where: str, text: str) -> list[dict[str, Any]]:
    """Reads one JSON object, a list of them, or one per line. Raises InputError."""
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


def floats(words: Iterable[str]) -> list[float]:
    """Numbers of a log line; all NaN if one word is not a number."""
    numbers = list(words)
    try:
        return [float(word) for word in numbers]
    except ValueError:
        return [math.nan] * len(numbers)


def is_count(value: object) -> TypeGuard[float]:
    """A finite number from 0 on."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
