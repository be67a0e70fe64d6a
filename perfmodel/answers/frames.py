"""Answers as tidy tables: a row a point, a column a figure with its unit in its name; pandas is needed only here."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from perfmodel.answers.sweep import COLUMNS, Grid, Sweep, blocks, frame_of, pandas
from perfmodel.errors import InputError, in_names, refuse
from perfmodel.speculation.chain import Prediction

if TYPE_CHECKING:
    from pandas import DataFrame

MEMORY = ("fits", "max_batch", "ar_max_batch")
POINT = ("batch", "context_tokens", "gamma")
RATIOS = ("draft_to_target", "verify_to_target")
Label = str | int | float | None


@in_names
def to_frame(answers: Prediction | Sweep | Grid, *, context: ArrayLike | None = None, **labels: Label) -> "DataFrame":
    """A row for every point of a prediction, of a sweep, or of a grid of questions, which is answered here.

    context: cached tokens per sequence of a prediction, which does not hold them (`Workload.context`, or anything that
    broadcasts to it). labels: more columns, the same in every row, such as ``model="llama-3.1-8b"``; a grid has its
    own. Raises InputError where rows could not be told apart, or pandas is not installed.
    """
    if isinstance(answers, Grid | Sweep):
        if context is not None or labels:
            raise InputError("to_frame: a grid has its own contexts and labels; leave context and labels out")
        if isinstance(answers, Sweep):
            return answers.to_frame()
        return pandas().concat(list(map(frame_of, blocks(answers))), ignore_index=True)
    columns = _columns(answers, context)
    clash = [name for name in labels if name in columns]
    if clash:
        raise InputError(f"to_frame: {clash[0]}: must be a new name, and the prediction has such a column")
    return pandas().DataFrame(labels | columns, index=range(columns["gamma"].size))


def _columns(p: Prediction, context: ArrayLike | None) -> dict[str, Any]:
    """Name -> flat array. Columns of a sweep keep its names and order; the cost ratios follow."""
    shape = np.shape(p.speedup)
    point: dict[str, Any] = {"batch": p.batch, "gamma": p.gamma}
    if context is not None:
        point["context_tokens"] = _over(context, shape)
    elif np.unique(np.stack([p.batch.ravel(), p.gamma.ravel()]), axis=1).shape[1] < p.gamma.size:
        raise InputError("to_frame: several rows have the same batch and gamma: give context=workload.context")
    names = [name for name in (*COLUMNS, *RATIOS) if name not in MEMORY and (name in point or name not in POINT)]
    values = {name: point[name] if name in point else getattr(p, name) for name in names}
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
