"""The files a sweep writes: CSV or Parquet, block by block at flat memory, named only when they are whole."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.answers.sweep import COLUMNS, LABELS, WHOLE, Block, Grid, blocks
from perfmodel.errors import InputError, not_installed
from perfmodel.writing import destination, no_formula, write

DIGITS = 13
"""Significant digits of a figure in a CSV file."""
Progress = Callable[[int, int], None]


def write_sweep(
    grid: Grid, path: str | Path, *, overwrite: bool = False, progress: Progress = lambda done, of: None
) -> None:
    """Answer the grid into a .csv or (with pyarrow) a .parquet file; `progress` is told rows done, of how many.

    Raises InputError for a question that cannot be answered, another suffix, a place that cannot be written to, or,
    without `overwrite`, a file that exists. Whatever interrupts it, the file is whole or not there.
    """
    where = destination(path, ".csv", ".parquet")
    if where.exists() and not overwrite:
        raise InputError(f"--output: {where} exists; --overwrite replaces it")
    fill = _csv if where.suffix.lower() == ".csv" else _parquet()
    for _ in grid.resolved():  # a mistake in the last case is refused before the first row
        pass
    write(where, lambda fresh: fill(fresh, _counted(grid, progress)))


def _counted(grid: Grid, progress: Progress) -> Iterator[Block]:
    done = 0
    for block in blocks(grid):
        yield block
        done += block.rows
        progress(done, grid.rows)


def _csv(path: Path, rows: Iterator[Block]) -> None:
    """Rows as text; a missing alpha is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join((*LABELS, *COLUMNS)) + "\n")
        for block in rows:
            labels = (_cell(block.labels[name]) for name in LABELS)
            row = ",".join((*labels, *("%d" if name in WHOLE else f"%.{DIGITS}g" for name in COLUMNS))) + "\n"
            values = np.stack([block.columns[name] for name in COLUMNS], axis=1)
            file.write(row * block.rows % tuple(values.reshape(-1).tolist()))


def _parquet() -> Callable[[Path, Iterator[Block]], None]:
    """The writer of Parquet, a row group a block. Raises InputError without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise not_installed("--output: Parquet", "pyarrow", "notebooks") from None
    kinds = dict.fromkeys(LABELS, pa.string()) | {"tp": pa.int64(), "draft_tp": pa.int64(), "alpha": pa.float64()}
    kinds |= {name: pa.int64() if name in WHOLE else pa.float64() for name in COLUMNS}

    def fill(path: Path, rows: Iterator[Block]) -> None:
        with parquet.ParquetWriter(path, pa.schema(list(kinds.items()))) as writer:
            for block in rows:
                cells: dict[str, Any] = {name: [block.labels[name]] * block.rows for name in LABELS}
                cells |= {name: block.columns[name].astype(kinds[name].to_pandas_dtype()) for name in COLUMNS}
                writer.write_table(pa.table(cells, schema=writer.schema))

    return fill


def _cell(value: str | int | float | None) -> str:
    """One label as a CSV cell inside a %-format; one that begins like a formula gets an apostrophe before it."""
    text = "" if value is None else no_formula(value) if isinstance(value, str) else str(value)
    if any(c in text for c in ',"\r\n'):
        text = '"' + text.replace('"', '""') + '"'
    return text.replace("%", "%%")
