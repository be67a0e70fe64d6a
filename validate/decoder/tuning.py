"""The tunable parameters of the attention kernel on a device, and the results of a sweep."""

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from perfmodel.specs import Frozen, files

VARIABLE = "PERFMODEL_TUNING"
"""Environment variable with the file of a sweep (`benchmarks/attention.py --best`)."""
Count = Annotated[int, Meta(ge=1)]


class Tuning(Frozen):
    """The parameters of the kernel. The defaults were the fastest of a sweep on an H200.

    - block: cached tokens of a tile.
    - warps, stages: the warps and pipeline stages of a program.
    - programs_per_processor: largest number of programs per multiprocessor.
    - max_splits: largest number of parts per sequence and KV head.
    """

    block: Count = 64
    warps: Count = 4
    stages: Count = 3
    programs_per_processor: Count = 3
    max_splits: Count = 32

    def parts(self, programs: int, bound: int, processors: int) -> int:
        """Number of parts into which a cache of at most `bound` tokens is split. Every multiprocessor then
        gets as many programs as allowed and no more, and each program reads at least four tiles.

        - programs: the programs of each part.
        - processors: the multiprocessors of the device.
        """
        filling = self.programs_per_processor * processors // programs
        return max(1, min(filling, self.max_splits, bound // (4 * self.block)))


class _Sweep(Frozen):
    rows: Annotated[dict[int, Tuning], Meta(min_length=1)]


def tunings() -> dict[int, Tuning]:
    """Largest number of rows (query heads per KV head x new tokens) -> the tuning for it. The last tuning
    also serves more rows.

    The tunings come from the file in the environment variable `VARIABLE`, or are the defaults. Raises
    InputError, which names the file.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return {16: Tuning(), 32: Tuning(programs_per_processor=2)}
    return files.parse(_Sweep, {"rows": files.read_mapping(Path(path))}, f"{VARIABLE}: {path}").rows


def of_rows(choices: dict[int, Tuning], rows: int) -> Tuning:
    """The tuning for this many rows."""
    return choices[min((most for most in choices if most >= rows), default=max(choices))]
