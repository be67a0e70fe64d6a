"""Writes a sweep to CSV or Parquet in blocks, so that memory use stays constant. A file only gets its name
when it is complete.
"""

import math
import string
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.grid.blocks import COLUMNS, LABELS, WHOLE, Block, blocks
from perfmodel.answers.grid.grid import Grid
from perfmodel.errors import InputError, library
from perfmodel.operations import Array
from perfmodel.writing import destination, no_formula, write

DIGITS = 13
"""Least number of significant digits of a number in a CSV file."""
MOST_DIGITS = 18
"""Largest number of decimal digits that always fit in an integer of 64 bits."""


def write_sweep(
    grid: Grid,
    path: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] = lambda rows: None,
) -> tuple[str, ...]:
    """Writes the answers of a grid to a .csv file or, if pyarrow is installed, to a .parquet file.

    - progress: a function that is called with the number of rows of each block.

    Returns the warnings of `Grid.doubts`.

    Raises InputError for an impossible question, another suffix, a path that cannot be written to, or an
    existing file if `overwrite` is false. After an interruption, the file is either complete or absent.
    """
    where = destination(path, ".csv", ".parquet")
    if where.exists() and not overwrite:
        raise InputError(f"--output: {where} exists; --overwrite replaces it")
    fill = _csv if where.suffix.lower() == ".csv" else _parquet()
    doubts = grid.doubts()  # a mistake in the last case is refused before the first row
    write(where, lambda fresh: fill(fresh, _counted(grid, progress)))
    return doubts


def _counted(grid: Grid, progress: Callable[[int], object]) -> Iterator[Block]:
    """Yields the blocks of the grid, and calls `progress` after each block."""
    for block in blocks(grid):
        yield block
        progress(block.rows)


def _csv(path: Path, rows: Iterator[Block]) -> None:
    """Writes the rows as text. A missing alpha is an empty cell.

    All cells of a column have the width of the widest cell. Narrower cells are padded with zero bytes, which
    are not written.
    """
    with path.open("wb") as file:
        file.write(",".join((*LABELS, *COLUMNS)).encode() + b"\n")
        for block in rows:
            labels = ",".join(label_cell(block.labels[name]) for name in LABELS).encode()
            text = [np.tile(np.frombuffer(labels, np.uint8), (block.rows, 1))]
            comma = np.full((block.rows, 1), ord(","), np.uint8)
            for name in COLUMNS:
                text += [comma, figure_cells(block.columns[name], name in WHOLE)]
            text.append(np.full((block.rows, 1), ord("\n"), np.uint8))
            lines = np.concatenate(text, axis=1)
            file.write(lines[lines != 0].tobytes())


def label_cell(value: str | int | float | None) -> str:
    """A label as a CSV cell. A label that begins like a spreadsheet formula gets an apostrophe in front."""
    if value is None:
        return ""
    text = no_formula(value) if isinstance(value, str) else str(value)
    if any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def figure_cells(values: Array, whole: bool) -> NDArray[np.uint8]:
    """A column of numbers as characters, in an array of shape [rows, width of the widest cell]. Unused
    positions are zero bytes. All numbers have as many decimals as the smallest number needs.

    The function formats four digits of all rows at once, because Python's own formatting would take most of
    the time of a sweep. Python's formatting is only used for columns with negative or infinite numbers, and
    for columns whose numbers differ too much in size.
    """
    most_digits = _digits_ahead(values.max())
    least_digits = _digits_ahead(values.min(where=values > 0, initial=math.inf))
    decimals = 0 if whole else max(DIGITS - least_digits, 1)
    is_plain = np.isfinite(values).all() and values.min() >= 0
    if not is_plain or decimals + most_digits > MOST_DIGITS:
        each = np.array([f"{value:.{DIGITS}g}" for value in values.tolist()], "S")
        return each.view(np.uint8).reshape(values.size, each.itemsize)
    left = np.rint(values * 10.0**decimals).astype(np.int64)
    ahead = max(len(str(left.max())) - decimals, 1)
    digits = _digits(left, ahead + decimals)
    text = digits
    if decimals:
        text = np.full((values.size, ahead + 1 + decimals), ord("."), np.uint8)
        text[:, :ahead] = digits[:, :ahead]
        text[:, ahead + 1 :] = digits[:, ahead:]
    leading = text[:, : ahead - 1]
    leading[np.logical_and.accumulate(leading == ord("0"), axis=1)] = 0
    return text


def _digits_ahead(value: float) -> int:
    """Number of digits before the decimal point; below 1 for a value below 1, and 1 for 0 and values that
    are not finite.
    """
    return math.floor(math.log10(value)) + 1 if 0 < value < math.inf else 1


def _digits(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Whole numbers as characters [rows, width], with leading zeros."""
    left = numbers
    fours = np.empty((numbers.size, -(-width // 4)), np.uint32)
    for place in reversed(range(fours.shape[1])):
        before = left
        left = left // 10**4
        fours[:, place] = _four_digits()[before - 10**4 * left]
    return fours.view(np.uint8)[:, -width:]


@cache
def _four_digits() -> NDArray[np.uint32]:
    """The numbers 0000 to 9999 as characters, four each."""
    every = ("".join(four) for four in product(string.digits, repeat=4))
    return np.frombuffer("".join(every).encode(), np.uint32)


def _parquet() -> Callable[[Path, Iterator[Block]], None]:
    """The Parquet writer, one row group for each block. Raises InputError without pyarrow."""
    pa, parquet = (library(name, "--output: Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    kinds = dict.fromkeys(LABELS, pa.string()) | {
        "tp": pa.int64(),
        "draft_tp": pa.int64(),
        "alpha": pa.float64(),
    }
    kinds |= {name: pa.int64() if name in WHOLE else pa.float64() for name in COLUMNS}

    def fill(path: Path, rows: Iterator[Block]) -> None:
        with parquet.ParquetWriter(path, pa.schema(list(kinds.items()))) as writer:
            for block in rows:
                cells: dict[str, Any] = {name: [block.labels[name]] * block.rows for name in LABELS}
                cells |= {name: block.columns[name].astype(kinds[name].to_pandas_dtype()) for name in COLUMNS}
                writer.write_table(pa.table(cells, schema=writer.schema))

    return fill
