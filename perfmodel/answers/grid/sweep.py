"""The answers of a grid as rows, as a pandas DataFrame, or as an xarray Dataset."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.answers.answer import SCHEMA_VERSION, Answer, escaped, plain
from perfmodel.answers.declaration import asks
from perfmodel.answers.grid.blocks import COLUMNS, Block, blocks, is_time, verdicts_of
from perfmodel.answers.grid.grid import AXES, HEADS, Grid
from perfmodel.errors import InputError, library, refuse, unknown_name
from perfmodel.operations import Array
from perfmodel.parse import parse_text

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

MAX_ROWS = 10_000_000
"""Largest number of rows of a sweep in memory."""


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Answer):
    """The answers of a grid, with one row per point in the order of the lists. The columns are `LABELS` and
    `COLUMNS`. The names of the columns state the units.

    Two sweeps are only equal if they are the same object.
    """

    grid: Grid
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        return sum(block.rows for block in self.blocks)

    def to_frame(self) -> "DataFrame":
        """The rows as a pandas DataFrame. The DataFrame also has the interval of the speedup and the verdict
        of each point.

        Raises InputError if pandas is not installed.
        """
        frames = []
        for block in self.blocks:
            alpha = block.labels["alpha"]
            labels: dict[str, Any] = block.labels | {"alpha": np.nan if alpha is None else alpha}
            columns = block.typed() | {"fits": block.columns["fits"].astype(np.bool_)} | verdicts_of(block)
            frames.append(library("pandas").DataFrame(labels | columns, index=range(block.rows)))
        return library("pandas").concat(frames, ignore_index=True)

    def to_xarray(self) -> "Dataset":
        """The numbers as an xarray Dataset over all `AXES`, including axes with a single value.

        On the axes, ``auto`` stands for the best draft length, and ``published`` for an acceptance that is
        looked up. Any other value that the question does not state is an empty text. Raises InputError if
        xarray is not installed.
        """
        dataset = library("xarray", "to_xarray", "xarray").Dataset
        axes = {name: self.grid.axis(name) for name in AXES}
        sizes = {name: len(values) for name, values in axes.items()}
        figures = {
            name: (AXES, self._over_axes(name, sizes))
            for name in COLUMNS
            if name not in ("batch", "context_tokens", "gamma")
        }
        unset = {"alpha": "published", "gamma": "auto"}
        labels = {
            name: [unset.get(name, "") if value is None else value for value in values]
            for name, values in axes.items()
        }
        return dataset(figures, labels)

    def _over_axes(self, figure: str, sizes: dict[str, int]) -> Array:
        """One column with an axis for each of `AXES`."""
        column: Array = np.concatenate([block.typed()[figure] for block in self.blocks])
        if not self.grid.looks_up:
            return column.reshape([*sizes.values()])
        # each context is a separate case, so its rows are together, and the batch varies within them
        swapped = [*(sizes[name] for name in HEADS), sizes["context"], sizes["batch"], sizes["gamma"]]
        return column.reshape(swapped).swapaxes(AXES.index("batch"), AXES.index("context"))

    def best(self, figure: str = "speedup") -> dict[str, Any]:
        """The row with the best value in the column `figure` (one of `COLUMNS`), among the rows that fit in
        memory.

        The best value is the smallest for times (``_s``) and the largest for other columns. Raises InputError
        for an unknown column, or if no row fits.
        """
        if parse_text(figure, "figure") not in COLUMNS:
            raise unknown_name("figure", "figure", figure, COLUMNS)
        rows = [row for row in self.as_dict()["rows"] if row["fits"]]
        if not rows:
            raise InputError("best: nothing of this sweep fits in memory")
        best = min if is_time(figure) else max
        return dict(best(rows, key=lambda row: row[figure]))

    def as_dict(self) -> dict[str, Any]:
        rows = []
        for block in self.blocks:
            figures = zip(*(column.tolist() for column in block.typed().values()), strict=True)
            rows += [block.labels | dict(zip(COLUMNS, row, strict=True)) for row in figures]
        return {"schema_version": SCHEMA_VERSION, "rows": plain(rows)}

    def _repr_html_(self) -> str:
        return f"<p><b>{escaped(self.headline())}</b></p><pre>{escaped(str(self))}</pre>"

    def headline(self) -> str:
        speedup = np.concatenate([block.columns["speedup"] for block in self.blocks])
        span = f"{speedup.min():.2f}x to {speedup.max():.2f}x"
        return f"{len(self)} rows, speedup {span}"


@asks(Grid)
def sweep(grid: Grid) -> Sweep:
    """Answer every combination of the listed values. `Sweep.to_frame` returns a table.

    model, hardware, tp, draft_kv, alpha, batch, context and gamma accept lists, or texts with commas. Counts
    may have ranges such as ``1..16``, ``1000..64000+1000`` or ``1..256x2``. Raises InputError for wrong
    input.
    """
    if grid.rows > MAX_ROWS:
        raise refuse(
            "sweep",
            "rows",
            f"at most {MAX_ROWS} in memory; `perfmodel sweep` writes more to a file",
            grid.rows,
        )
    return Sweep(grid, tuple(blocks(grid)))
