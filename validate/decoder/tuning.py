"""The tunable parameters of the attention kernel: defaults, or the results of a sweep."""

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from perfmodel.specs import Frozen, files

VARIABLE = "PERFMODEL_TUNING"
"""Environment variable with the path of a file of tunings. `benchmarks/attention.py --best` writes such a
file.
"""
Count = Annotated[int, Meta(ge=1)]
LEAST_TILE = 16
"""Smallest number of rows of a matrix instruction."""


class Tuning(Frozen):
    """The parameters of the kernel. The defaults were the fastest in a sweep on an H200.

    - block: the number of cached tokens of a tile.
    - warps, stages: the number of warps and of pipeline stages of a program.
    - programs_per_processor: the largest number of programs per multiprocessor.
    - max_splits: the largest number of parts per sequence and KV head.
    """

    block: Count = 64
    warps: Count = 4
    stages: Count = 3
    programs_per_processor: Count = 3
    max_splits: Count = 32

    def parts(self, programs: int, bound: int, processors: int) -> int:
        """The number of parts into which a cache is split. The parts fill every multiprocessor with the
        allowed number of programs if each program then has at least four tiles to read.

        - programs: the number of programs of each part.
        - bound: the largest number of cached tokens.
        - processors: the number of multiprocessors of the device.
        """
        filling = self.programs_per_processor * processors // programs
        return max(1, min(filling, self.max_splits, bound // (4 * self.block)))


class _Sweep(Frozen):
    rows: Annotated[dict[int, Tuning], Meta(min_length=1)]


def tunings() -> dict[int, Tuning]:
    """Largest number of rows (query heads per KV head x new tokens) -> the tuning up to this number. The last
    tuning also applies to more rows.

    The tunings come from the file that `VARIABLE` names, or are the defaults. Raises InputError for an
    invalid file.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return {16: Tuning(), 32: Tuning(programs_per_processor=2)}
    return files.parse(_Sweep, {"rows": files.read_mapping(Path(path))}, f"{VARIABLE}: {path}").rows


def of_rows(choices: dict[int, Tuning], rows: int) -> Tuning:
    """The tuning for a number of rows.

    - choices: see `tunings`.
    """
    return choices[min((most for most in choices if most >= rows), default=max(choices))]


def tile_of(rows: int, most: int) -> int:
    """The number of rows of a tile: a power of two from `LEAST_TILE` to `most` that is at least `rows`, or
    else `most`.
    """
    next_power_of_2 = 1 << (rows - 1).bit_length()
    return min(most, max(LEAST_TILE, next_power_of_2))
