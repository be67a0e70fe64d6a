"""The workload of a question: numbers of sequences, context lengths and numbers of drafted tokens."""

import numpy as np
from numpy.typing import ArrayLike

from perfmodel.errors import refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Ints

MAX_BATCH = 2.0**40
MAX_CONTEXT = 2.0**40
MAX_GAMMA = 1024
"""Largest numbers of sequences, of cached tokens per sequence and of drafted tokens in a question."""


class Workload(Immutable):
    """The workload of a question. The arrays broadcast together.

    - batch: number of sequences.
    - context: number of cached tokens per sequence.
    - gamma: number of drafted tokens.
    """

    batch: Array
    context: Array
    gamma: Ints

    @classmethod
    def of(cls, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike = 0) -> "Workload":
        """Checks and converts the numbers of a workload. Raises InputError unless batch and context are
        finite numbers from 1 and gamma is a whole number from 0, all up to a limit.
        """
        axes = (
            _numbers(batch, "batch", 1, MAX_BATCH),
            _numbers(context, "context", 1, MAX_CONTEXT),
            _numbers(gamma, "gamma", 0, MAX_GAMMA, whole=True).astype(np.int64),
        )
        try:
            np.broadcast_shapes(*(axis.shape for axis in axes))
        except ValueError:
            raise refuse(
                "--batch, --context, --gamma",
                None,
                "of shapes that broadcast together",
                ", ".join(str(axis.shape) for axis in axes),
            ) from None
        return cls(*axes)


def _numbers(given: ArrayLike, name: str, low: float, high: float, whole: bool = False) -> Array:
    """The numbers as an array. Raises InputError unless all are within the bounds. The message quotes the
    first number that is not.
    """
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        shown = given if isinstance(given, str) else type(given).__name__
        raise refuse(f"--{name}", None, "a number", shown) from None
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise refuse(f"--{name}", None, "finite numbers", given)
    fine = (values >= low) & (values <= high)
    if whole:
        fine &= values == np.floor(values)
    if not np.all(fine):
        wrong = float(values[~fine][0])
        raise refuse(
            f"--{name}",
            None,
            f"{'whole ' if whole else ''}numbers from {low} to {high:.0f}",
            int(wrong) if wrong.is_integer() else wrong,
        )
    return values
