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
    """Cached tokens of a tile, warps and pipeline stages of a program, and most programs per multiprocessor,
    with at most `max_splits` for a sequence and KV head. The defaults were the fastest of a sweep on an H200.
    """

    block: Count = 64
    warps: Count = 4
    stages: Count = 3
    programs_per_processor: Count = 3
    max_splits: Count = 32

    def parts(self, programs: int, bound: int, processors: int) -> int:
        """Number of parts of a cache of at most `bound` tokens, such that every multiprocessor has as many
        programs as it may, none waits for a second turn, and each reads a few tiles. programs: of each part.
        """
        filling = self.programs_per_processor * processors // programs
        return max(1, min(filling, self.max_splits, bound // (4 * self.block)))


class _Sweep(Frozen):
    rows: Annotated[dict[int, Tuning], Meta(min_length=1)]


def tunings() -> dict[int, Tuning]:
    """Most rows (group x new tokens) of each tuning. The one with the most rows serves all above, too.

    They are those of the file in `VARIABLE`, or else the defaults. Raises InputError naming the file.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return {16: Tuning(), 32: Tuning(programs_per_processor=2)}
    return files.parse(_Sweep, {"rows": files.read_mapping(Path(path))}, f"{VARIABLE}: {path}").rows


def of_rows(choices: dict[int, Tuning], rows: int) -> Tuning:
    """The tuning for this many rows."""
    return choices[min((most for most in choices if most >= rows), default=max(choices))]
