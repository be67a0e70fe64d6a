"""Compiles a formula into a flat program. The formula runs once on numbers that record its arithmetic, and
the program repeats this arithmetic.

The formulas of a pass create objects, look up constants and choose among kernels. None of this depends on
batch, context or query tokens. A program therefore contains only the arithmetic on these numbers. The program
is exact: it has the same operations in the same order as the formula. The same program runs on plain numbers
(`plain_numbers`) and on arrays (with numpy).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.costs.plain_numbers import NUMBERS, part
from perfmodel.costs.program_source import INFIX, Step, function_source
from perfmodel.costs.recorded import Recorded
from perfmodel.operations import Array, Floats

FEW_POINTS = 12
"""Largest number of points for which separate computations with plain numbers take less time than one
computation with an array.
"""
BLOCK = 2048
"""Number of points that run through a program together, so that its intermediate arrays fit in the
processor's cache.
"""
SURFACE = 2**18
"""Largest number of points of a surface that is computed with separate axes. Each step then runs only on the
axes on which it depends.
"""
MASKS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "isfinite"))
"""Functions of numpy whose results are true or false."""
NEUTRAL = {
    "add": ("0.0", "0"),
    "subtract": ("0.0", "0"),
    "multiply": ("1.0", "1"),
    "divide": ("1.0", "1"),
}
"""For functions of two numbers: the second number with which they return the first number unchanged."""
COMMUTATIVE = ("add", "multiply")
"""Functions of two numbers for which the number in `NEUTRAL` may also be the first one."""


class Program:
    """A compiled formula of several numbers, which broadcast together.

    - formula: a function with one argument for each of `names`. It returns one number, or a tuple of numbers
      (see `numbers`).

    Raises Untraceable if the steps of the formula depend on the values of its arguments.
    """

    def __init__(self, formula: Callable[..., Floats | Sequence[Floats]], *names: str) -> None:
        self._names = names
        self._constants: dict[str, Any] = {}
        self._steps: dict[Step, str] = {}
        """The name of the result of each step, in order. Equal steps occur once."""
        self._splits: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        value: Any = formula(*(Recorded(self, name) for name in names))
        self._several = isinstance(value, tuple)
        self._results = tuple(map(self._name, value if self._several else (value,)))

    def add(self, function: str, inputs: Sequence[Any]) -> Recorded:
        """Records a function call as a further step, and returns its result. A step that changes nothing is
        left out. A step on a mask (true or false) is always kept, because even adding 0 turns a mask into
        numbers.
        """
        names = [self._name(each) for each in inputs]
        masked = any(isinstance(each, Recorded) and each.is_mask for each in inputs)
        if function in NEUTRAL and not masked:
            first, second = names
            if second in NEUTRAL[function]:
                return Recorded(self, first)
            if first in NEUTRAL[function] and function in COMMUTATIVE:
                return Recorded(self, second)
        step = Step(function, tuple(names))
        name = self._steps.setdefault(step, f"v{len(self._steps)}")
        return Recorded(self, name, function in MASKS)

    def _name(self, value: Any) -> str:
        """The name of a recorded number, or of a constant."""
        if isinstance(value, Recorded):
            return value.name
        array = np.asarray(value)
        if array.ndim == 0:
            return repr(array.item()) if np.isfinite(array).all() else f"float('{array.item()}')"
        return self._constant(array)

    def _constant(self, array: NDArray[Any]) -> str:
        for name, known in self._constants.items():
            if known is array or np.array_equal(known, array):
                return name
        name = f"c{len(self._constants)}"
        self._constants[name] = array
        return name

    @cached_property
    def source(self) -> str:
        """The source code of the program, as a Python function of its arguments."""
        return function_source(self._names, self._steps, self._results, self._several)

    @cached_property
    def _code(self) -> Any:
        return compile(self.source, "<program>", "exec")

    @cached_property
    def _of_arrays(self) -> Callable[..., Any]:
        return self._run(self._code)

    def _run(self, source: Any) -> Callable[..., Any]:
        """The function that a source, or its code, defines for arrays."""
        names: dict[str, Any] = {**vars(np), **self._constants, "part": part}
        exec(source, names)
        program: Callable[..., Any] = names["program"]
        return program

    @cached_property
    def _of_numbers(self) -> Callable[..., Any] | None:
        """The program for plain numbers. The result is None if one of its functions exists only for
        arrays.
        """
        used = {step.function for step in self._steps}
        if not used <= NUMBERS.keys() | INFIX.keys():
            return None
        names: dict[str, Any] = {**NUMBERS, **{name: c.tolist() for name, c in self._constants.items()}}
        exec(self._code, names)
        program: Callable[..., Any] = names["program"]
        return program

    def at(self, *values: Floats) -> Floats:
        """The value for plain numbers, or the values for arrays."""
        if np.ndarray in map(type, values):
            return self(*values)
        return self.number(*values)  # type: ignore[arg-type]

    def along(self, name: str, *others: Floats) -> Callable[[Array], Array]:
        """The program as a function of one of its arguments. `others` has the fixed values of all other
        arguments, in order. Steps that do not depend on the free argument run only once.
        """
        before, after = self._split(name)
        known = before(*(np.asarray(value, float) for value in others))
        return lambda values: np.asarray(after(values, *known))

    def _split(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Divides the steps into two groups: the steps that do not depend on a number, and all others. The
        first group returns the values that the second group needs.
        """
        if name not in self._splits:
            moving = {name}
            for step, result in self._steps.items():
                if not moving.isdisjoint(step.inputs):
                    moving.add(result)
            before = {step: result for step, result in self._steps.items() if result not in moving}
            after = {step: result for step, result in self._steps.items() if result in moving}
            made = (*self._names, *before.values())
            needed = {each for step in after for each in step.inputs} | {*self._results}
            shared = tuple(each for each in made if each != name and each in needed)
            others = [each for each in self._names if each != name]
            first = self._run(function_source(others, before, shared, several=True))
            rest = self._run(function_source((name, *shared), after, self._results))
            self._splits[name] = (first, rest)
        return self._splits[name]

    def number(self, *values: float) -> float:
        """The value of the formula for plain numbers."""
        return float(self._at_point(values))

    def numbers(self, *values: float) -> tuple[float, ...]:
        """The values for plain numbers, if the formula returns several values."""
        return tuple(map(float, self._at_point(values)))

    def _at_point(self, values: Sequence[float]) -> Any:
        if self._of_numbers is not None:
            try:
                return self._of_numbers(*values)
            except (ZeroDivisionError, OverflowError, ValueError):  # numpy has a value there
                pass
        return self._of_arrays(*map(np.float64, values))

    def __call__(self, *values: Floats) -> Array:
        """The values for arrays that broadcast together."""
        arrays = [np.asarray(value, float) for value in values]
        shape = np.broadcast(*arrays).shape
        size = math.prod(shape)
        if size == 1:
            return np.full(shape, self.number(*[each.item() for each in arrays]))
        if size <= FEW_POINTS:
            points = zip(*(_points(each, shape) for each in arrays), strict=False)
            return np.reshape([self.number(*point) for point in points], shape)
        fewer = any(1 < each.size < size for each in arrays)
        if size > (SURFACE if fewer else BLOCK):
            return self._in_blocks(arrays, shape)
        found = np.asarray(self._of_arrays(*arrays), float)
        return found if found.shape == shape else np.broadcast_to(found, shape).copy()

    def _in_blocks(self, arrays: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The values over arrays that broadcast to a shape, computed block by block."""
        values = np.empty(math.prod(shape))
        flat = [each.item() if each.size == 1 else np.ravel(np.broadcast_to(each, shape)) for each in arrays]
        for start in range(0, values.size, BLOCK):
            block = slice(start, start + BLOCK)
            within = (each[block] if isinstance(each, np.ndarray) else each for each in flat)
            values[block] = self._of_arrays(*within)
        return values.reshape(shape)


def _points(values: Array, shape: tuple[int, ...]) -> Iterable[float]:
    """The values at the points of a shape, in order. A single value is repeated without end."""
    if values.size == 1:
        return repeat(values.item())
    return np.broadcast_to(values, shape).ravel().tolist()
