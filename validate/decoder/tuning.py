"""The tunable parameters of the attention kernel on a device, and the results of a sweep."""

import os
from dataclasses import dataclass, fields
from pathlib import Path

from perfmodel.errors import refuse
from perfmodel.reading import parse_json, read_text

VARIABLE = "PERFMODEL_TUNING"
"""Environment variable with the file of a sweep (`benchmarks/attention.py --best`)."""


@dataclass(frozen=True)
class Tuning:
    """Cached tokens of a tile, warps and pipeline stages of a program, and most programs per multiprocessor,
    with at most `max_splits` for a sequence and KV head.
    """

    block: int = 64
    warps: int = 4
    stages: int = 3
    programs_per_processor: int = 4
    max_splits: int = 32


def tunings() -> dict[int, Tuning]:
    """Most rows (group x new tokens) of each tuning, rising. The last one serves all above, too.

    They are those of the file in `VARIABLE`, or else the defaults. Raises InputError naming the file.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return {1: Tuning()}
    found, names = parse_json(path, read_text(Path(path))), {field.name for field in fields(Tuning)}
    try:
        made = {
            int(rows): Tuning(**given) for rows, given in sorted(found.items(), key=lambda item: int(item[0]))
        }
        values = [value for given in found.values() for value in given.values()]
        if made and all(type(value) is int and value > 0 for value in values):
            return made
    except (AttributeError, TypeError, ValueError):
        pass
    allowed = f"an object of row counts, each with some of {', '.join(sorted(names))}, whole numbers above 0"
    raise refuse(path, VARIABLE, allowed, str(found)[:80])


def of_rows(choices: dict[int, Tuning], rows: int) -> Tuning:
    """The tuning for this many rows."""
    return choices[min((most for most in choices if most >= rows), default=max(choices))]
