"""Answers as tidy tables: a row a point, a column a figure with its unit in its name; pandas is needed only here.

`to_frame` makes them from a `Prediction` or a `Grid`, `write_frame` and `read_frame` keep them as CSV or Parquet, and
`read_frame` also reads what `perfmodel sweep` wrote.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from perfmodel.answers.sweep import COLUMNS, LABELS, Grid, Sweep, blocks, frame_of, pandas
from perfmodel.errors import InputError, in_names, not_installed, refuse
from perfmodel.reading import check_regular
from perfmodel.speculation.chain import Prediction
from perfmodel.writing import destination, no_formula, write

if TYPE_CHECKING:
    from pandas import DataFrame

MEMORY = ("fits", "max_batch", "ar_max_batch")
POINT = ("batch", "context_tokens", "gamma")
RATIOS = ("draft_to_target", "verify_to_target")
SUFFIXES = (".csv", ".parquet")
TEXTS = {name: str for name in LABELS if name not in ("tp", "draft_tp", "alpha")} | {"fits": str}
"""Columns of a CSV file that hold text even where it reads like a number; `fits` is read by `_truth`."""
TRUTH = {True: True, False: False, "True": True, "False": False, "1": True, "0": False}
Label = str | int | float | None


@in_names
def to_frame(found: Prediction | Sweep | Grid, *, context: ArrayLike | None = None, **labels: Label) -> "DataFrame":
    """A row for every point of a prediction, of a sweep, or of a grid of questions, which is answered here.

    context: cached tokens per sequence of a prediction, which does not hold them (`Workload.context`, or anything that
    broadcasts to it). labels: more columns, the same in every row, such as ``model="llama-3.1-8b"``; a grid has its
    own. Raises InputError where rows could not be told apart, or pandas is not installed.
    """
    if isinstance(found, Grid | Sweep):
        if context is not None or labels:
            raise InputError("to_frame: a grid has its own contexts and labels; leave context and labels out")
        if isinstance(found, Sweep):
            return found.to_frame()
        return pandas().concat(list(map(frame_of, blocks(found))), ignore_index=True)
    columns = _columns(found, context)
    clash = [name for name in labels if name in columns]
    if clash:
        raise InputError(f"to_frame: {clash[0]}: must be a new name, and the prediction has such a column")
    return pandas().DataFrame(labels | columns, index=range(columns["gamma"].size))


@in_names
def write_frame(frame: "DataFrame", path: str | Path) -> None:
    """Keep a table as .csv (numbers in full) or .parquet.

    A .csv holds no types: a label of your own that reads like a number comes back as one, and one that begins like a
    formula with an apostrophe before it. Raises InputError for another suffix, a place that cannot be written to, or
    without pyarrow.
    """
    where = _checked(destination(path, *SUFFIXES, flag="frame file"))
    if where.suffix == ".csv":
        write(where, lambda fresh: _without_formulas(frame).to_csv(fresh, index=False), "frame file")
    else:
        write(where, lambda fresh: frame.to_parquet(fresh, index=False), "frame file")


def _without_formulas(frame: "DataFrame") -> "DataFrame":
    kept = frame.copy(deep=False)
    for name in frame.columns[[dtype.kind in "OTSU" for dtype in frame.dtypes]]:
        kept[name] = frame[name].map(lambda value: no_formula(value) if isinstance(value, str) else value)
    return kept


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError, OSError)
"""What pandas and pyarrow say of files that they cannot parse."""


@in_names
def read_frame(path: str | Path) -> "DataFrame":
    """The table in a .csv or .parquet file of `write_frame` or `perfmodel sweep`.

    `fits` is boolean, or pandas' nullable boolean where some rows have none. Raises InputError.
    """
    where, library = _checked(path), pandas()
    check_regular(where)
    try:
        if where.suffix == ".csv":
            frame = library.read_csv(where, keep_default_na=False, na_values=[""], dtype=TEXTS, **_exact(library))
        else:
            frame = library.read_parquet(where)
        if "alpha" in frame and (frame["alpha"].isna().all() or library.api.types.is_numeric_dtype(frame["alpha"])):
            frame["alpha"] = frame["alpha"].astype(np.float64)
        if "fits" in frame:
            frame["fits"] = _truth(frame["fits"], where)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"{where}: must be {where.suffix[1:]}: {str(error)[:200]}") from None
    return frame


def _truth(column: Any, where: Path) -> Any:
    odd = column[column.notna() & ~column.isin(list(TRUTH))]
    if odd.size:
        raise refuse(str(where), "fits", "True, False or nothing", odd.iloc[0])
    return column.map(TRUTH).astype("boolean" if column.isna().any() else bool)


def _columns(p: Prediction, context: ArrayLike | None) -> dict[str, Any]:
    """Name -> flat array. Columns of a sweep keep its names and order; the cost ratios follow."""
    shape = np.shape(p.speedup)
    found: dict[str, Any] = {"batch": p.batch, "gamma": p.gamma}
    if context is not None:
        found["context_tokens"] = _over(context, shape)
    elif np.unique(np.stack([p.batch.ravel(), p.gamma.ravel()]), axis=1).shape[1] < p.gamma.size:
        raise InputError("to_frame: several rows have the same batch and gamma: give context=workload.context")
    names = [name for name in (*COLUMNS, *RATIOS) if name not in MEMORY and (name in found or name not in POINT)]
    values = {name: found[name] if name in found else getattr(p, name) for name in names}
    return {name: np.broadcast_to(array, shape).reshape(-1) for name, array in values.items()}


def _over(context: ArrayLike, shape: tuple[int, ...]) -> Any:
    try:
        values = np.asarray(context, np.float64)
    except (TypeError, ValueError):
        raise refuse("to_frame", "context", "cached tokens per sequence", context) from None
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise refuse("to_frame", "context", f"of a shape that broadcasts to {shape}", values.shape) from None


def _checked(path: str | Path) -> Path:
    where = Path(path)
    if where.suffix not in SUFFIXES:
        raise refuse("frame file", None, "a file name ending in .csv or .parquet", where.name)
    if where.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            raise not_installed(f"{where}: Parquet", "pyarrow", "notebooks") from None
    return where


def _exact(library: Any) -> dict[str, str]:
    """What makes `read_csv` return the number that was written; its default from pandas 3.1 on."""
    version = tuple(int(part) for part in library.__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}
