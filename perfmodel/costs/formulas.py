"""Formulas that compile themselves (`costs.compiled`) after a number of runs. Until then, a formula keeps its
results.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfmodel.costs.compiled import Program
from perfmodel.costs.recorded import Recorded
from perfmodel.operations import Array, Floats

KEPT = 2**13
"""Largest number of points of an array for which a formula keeps its result."""
PATIENCE = 48
"""Number of runs of the formulas of a question that take about as long as compiling them."""


@dataclass(slots=True)
class Runs:
    """A count of runs that the formulas of one question share."""

    count: int = 0


class Formula:
    """A formula of several numbers. It compiles itself after `PATIENCE` runs, which take about as long as
    compiling.

    - direct: the formula as a function of numbers or arrays.
    - recorded: the same formula as a function of recorded numbers. By default it is `direct`.
    - runs: the shared count of runs.

    `direct` and `recorded` return one value, or several values (see `numbers`).
    """

    def __init__(
        self,
        direct: Callable[..., Any],
        *names: str,
        runs: Runs,
        recorded: Callable[..., Any] | None = None,
    ) -> None:
        self._direct = direct
        self._recorded = recorded or direct
        self._names = names
        self._runs = runs
        self._kept: dict[Hashable, Any] = {}

    @cached_property
    def program(self) -> Program:
        """The compiled formula. Raises Untraceable if the steps of the formula depend on the values of its
        arguments.
        """
        return Program(self._recorded, *self._names)

    def at(self, *values: Floats) -> Floats:
        """The value for plain numbers, or the values for arrays that broadcast together. For recorded
        numbers, the steps of the formula are added to the program that records them.
        """
        if Recorded in map(type, values):
            value: Floats = self._direct(*values)
            return value
        compiled = self._compiled
        return self._run(values) if compiled is None else self._run_compiled(values, compiled.at)

    def numbers(self, *values: float) -> tuple[float, ...]:
        """The values for plain numbers, if the formula returns several values."""
        compiled = self._compiled
        found = self._run(values) if compiled is None else self._run_compiled(values, compiled.numbers)
        return tuple(map(float, found))

    def along(self, name: str, *others: Floats) -> Callable[[Array], Array]:
        """The formula as a function of one of its arguments. `others` has the fixed values of all other
        arguments, in order.
        """
        place = self._names.index(name)
        before = others[:place]
        after = others[place:]
        compiled = self._compiled
        if compiled is None:
            return lambda values: np.asarray(self.at(*before, values, *after))
        program = compiled.along(name, *others)

        def run(values: Array) -> Array:
            arguments = (*before, values, *after)
            return np.asarray(self._run_compiled(arguments, lambda *_: program(values)))

        return run

    def _run(self, values: tuple[Floats, ...]) -> Any:
        """The result of the formula itself. It is kept for the next call with these values."""
        key = _key(values)
        if key in self._kept:
            return self._kept[key]
        self._runs.count += 1
        found = self._direct(*values)
        if key is not None and np.size(found) <= KEPT and self._runs.count <= PATIENCE:
            if isinstance(found, np.ndarray):
                found.flags.writeable = False
            self._kept[key] = found
        return found

    def _run_compiled(self, values: tuple[Floats, ...], program: Callable[..., Any]) -> Any:
        """The result of the compiled formula. A result that was kept before the compilation is used again.
        The answer to a question therefore remains the same to the last digit.
        """
        found = self._kept.get(_key(values))
        return program(*values) if found is None else found

    @property
    def _compiled(self) -> Program | None:
        """The compiled formula. The result is None before `PATIENCE` runs, and for a formula that cannot be
        compiled.
        """
        return None if self._runs.count < PATIENCE else self._program

    @cached_property
    def _program(self) -> Program | None:
        try:
            return self.program
        except TypeError:
            return None


def _key(values: Sequence[Floats]) -> tuple[Hashable, ...] | None:
    """Converts numbers and arrays to the key of a mapping. The result is None for an array with more than
    `KEPT` numbers.
    """
    key: list[Hashable] = []
    for value in values:
        if not isinstance(value, np.ndarray):
            key.append(value)
        elif value.size > KEPT:
            return None
        else:
            key.append(value.shape)
            key.append(value.tobytes())
    return tuple(key)
