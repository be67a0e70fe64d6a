"""The question's axes: how many sequences, how long their contexts, how many tokens drafted."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perfmodel.errors import refuse

MAX_BATCH = 2.0**40
MAX_CONTEXT = 2.0**40
MAX_GAMMA = 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """Batch (sequences), context (cached tokens per sequence) and gamma (drafted tokens); they broadcast together."""

    batch: NDArray[np.float64]
    context: NDArray[np.float64]
    gamma: NDArray[np.int64]

    @classmethod
    def of(cls, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike = 0) -> "Workload":
        """Check and convert. Raises InputError for numbers that are not positive and finite (gamma: whole, >= 0)."""
        tokens = _numbers(gamma, "gamma")
        fine = (tokens >= 0) & (tokens <= MAX_GAMMA) & (tokens == np.floor(tokens))
        if not np.all(fine):
            raise refuse("--gamma", None, f"whole numbers from 0 to {MAX_GAMMA}", _first(tokens, ~fine))
        axes = _positive(batch, "batch", MAX_BATCH), _positive(context, "context", MAX_CONTEXT), tokens.astype(np.int64)
        try:
            np.broadcast_shapes(*(axis.shape for axis in axes))
        except ValueError:
            shapes = ", ".join(str(axis.shape) for axis in axes)
            raise refuse("--batch, --context, --gamma", None, "of shapes that broadcast together", shapes) from None
        return cls(*axes)


def _positive(given: ArrayLike, name: str, largest: float) -> NDArray[np.float64]:
    values = _numbers(given, name)
    fine = (values >= 1) & (values <= largest)
    if not np.all(fine):
        raise refuse(f"--{name}", None, f"numbers from 1 to {largest:.0f}", _first(values, ~fine))
    return values


def _first(values: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float | int:
    """The first value that is wrong, as it was typed."""
    value = float(values[wrong][0])
    return int(value) if value.is_integer() else value


def _numbers(given: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        shown = given if isinstance(given, str) else type(given).__name__
        raise refuse(f"--{name}", None, "a number", shown) from None
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise refuse(f"--{name}", None, "finite numbers", given)
    return values
