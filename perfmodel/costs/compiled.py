"""Compiles a formula into a flat program: the formula runs once on recorded numbers, and the program repeats
its arithmetic.

The formulas of a pass make objects, look constants up and choose among kernels. None of that depends on
batch, context or query tokens, so a program has only the arithmetic on these. It is exact: it has the same
operations in the same order. One program serves plain numbers (with `math`) and arrays (with numpy).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats

FEW = 12
"""Points up to which plain numbers, one point after another, take less time than an array."""
BLOCK = 2048
"""Points that run through a program together, so that its intermediate arrays stay in the processor's cache.
"""
SURFACE = 2**18
"""Points of a surface up to which its axes keep their shapes in a program, so that a step runs on no more
points than it needs.
"""


class Untraceable(TypeError):
    """A formula needs the value of a recorded number, for example to choose between branches."""


class Recorded(NDArrayOperatorsMixin):
    """A number without a value. Arithmetic with it, and numpy's functions of it, are added to its program."""

    __slots__ = ("is_mask", "name", "program")
    ndim = 1  # it may stand for an array

    def __init__(self, program: "Program", name: str, is_mask: bool = False) -> None:
        self.program = program
        self.name = name
        self.is_mask = is_mask

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            raise Untraceable(f"{ufunc.__name__}.{method} of a recorded number")
        both = self.program.add(ufunc.__name__, inputs)
        if ufunc.nout == 1:
            return both
        return tuple(self.program.add("part", (both, index)) for index in range(ufunc.nout))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.ndim:
            return self.ndim
        if func is np.any:  # possibly; a formula then also counts what turns out to be zero
            return True
        if kwargs:
            raise Untraceable(f"{func.__name__} of a recorded number, with {', '.join(kwargs)}")
        return self.program.add(func.__name__, args)

    def astype(self, kind: Any) -> "Recorded":
        """A comparison as 0 or 1."""
        return self.program.add("multiply", (self, 1.0))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("a recorded number has no value")

    def __bool__(self) -> bool:
        raise Untraceable("a recorded number is neither true nor false")


class Program:
    """A formula of some numbers, which broadcast together.

    formula: takes as many numbers as `names` and returns one, or several (`numbers`). Raises Untraceable if
    its steps depend on their values.
    """

    def __init__(self, formula: Callable[..., Floats | Sequence[Floats]], *names: str) -> None:
        self._names = names
        self._constants: dict[str, Any] = {}
        self._steps: dict[tuple[str, ...], str] = {}
        """(function, names of its arguments) -> the name of its result, in order; the same step occurs once.
        """
        self._splits: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        value: Any = formula(*(Recorded(self, name) for name in names))
        self._several = isinstance(value, tuple)
        self._results = tuple(map(self._name, value if self._several else (value,)))

    def add(self, function: str, inputs: Sequence[Any]) -> Recorded:
        """The result of a function, as one more step unless it changes nothing. It changes a mask into
        numbers, whose sum is no mask.
        """
        names = [self._name(each) for each in inputs]
        masked = any(isinstance(each, Recorded) and each.is_mask for each in inputs)
        if function in NEUTRAL and not masked:
            first, second = names
            if second in NEUTRAL[function]:
                return Recorded(self, first)
            if first in NEUTRAL[function] and function in COMMUTATIVE:
                return Recorded(self, second)
        step = (function, *names)
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
        """The program as a Python function of its numbers."""
        return _function(self._names, self._steps, self._results, self._several)

    @cached_property
    def _code(self) -> Any:
        return compile(self.source, "<program>", "exec")

    @cached_property
    def _of_arrays(self) -> Callable[..., Any]:
        return self._run(self._code)

    def _run(self, source: Any) -> Callable[..., Any]:
        """The function that a source, or its code, defines for arrays."""
        names: dict[str, Any] = {**vars(np), **self._constants, "part": _part}
        exec(source, names)
        program: Callable[..., Any] = names["program"]
        return program

    @cached_property
    def _of_numbers(self) -> Callable[..., Any] | None:
        """The program for plain numbers; None if one of its functions has no such form."""
        used = {function for function, *_ in self._steps}
        if not used <= NUMBERS.keys() | INFIX.keys():
            return None
        names: dict[str, Any] = {**NUMBERS, **{name: c.tolist() for name, c in self._constants.items()}}
        exec(self._code, names)
        program: Callable[..., Any] = names["program"]
        return program

    def at(self, *values: Floats) -> Floats:
        """The value at one point of plain numbers, or the values over arrays."""
        if np.ndarray in map(type, values):
            return self(*values)
        return self.number(*values)  # type: ignore[arg-type]

    def along(self, name: str, *others: Floats) -> Callable[[Array], Array]:
        """The program as a function of one of its numbers, at fixed values of all others, in order. Steps
        that do not depend on this number run once.
        """
        before, after = self._split(name)
        known = before(*(np.asarray(value, float) for value in others))
        return lambda values: np.asarray(after(values, *known))

    def _split(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The steps that do not depend on a number, which return what the others need, and these others."""
        if name not in self._splits:
            moving = {name}
            for (_, *inputs), result in self._steps.items():
                if not moving.isdisjoint(inputs):
                    moving.add(result)
            before = {step: result for step, result in self._steps.items() if result not in moving}
            after = {step: result for step, result in self._steps.items() if result in moving}
            made = (*self._names, *before.values())
            needed = {each for _, *inputs in after for each in inputs} | {*self._results}
            shared = tuple(each for each in made if each != name and each in needed)
            others = [each for each in self._names if each != name]
            first = self._run(_function(others, before, shared, several=True))
            rest = self._run(_function((name, *shared), after, self._results))
            self._splits[name] = (first, rest)
        return self._splits[name]

    def number(self, *values: float) -> float:
        """The value at one point."""
        return float(self._at_point(values))

    def numbers(self, *values: float) -> tuple[float, ...]:
        """The values of a formula of several at one point."""
        return tuple(map(float, self._at_point(values)))

    def _at_point(self, values: Sequence[float]) -> Any:
        if self._of_numbers is not None:
            try:
                return self._of_numbers(*values)
            except (ZeroDivisionError, OverflowError, ValueError):  # numpy has a value there
                pass
        return self._of_arrays(*map(np.float64, values))

    def __call__(self, *values: Floats) -> Array:
        """The values over arrays that broadcast together."""
        arrays = [np.asarray(value, float) for value in values]
        shape = np.broadcast(*arrays).shape
        size = math.prod(shape)
        if size == 1:
            return np.full(shape, self.number(*[each.item() for each in arrays]))
        if size <= FEW:
            points = zip(*(_points(each, shape) for each in arrays), strict=False)
            return np.reshape([self.number(*point) for point in points], shape)
        fewer = any(1 < each.size < size for each in arrays)
        if size > (SURFACE if fewer else BLOCK):
            return self._in_blocks(arrays, shape)
        found = np.asarray(self._of_arrays(*arrays), float)
        return found if found.shape == shape else np.broadcast_to(found, shape).copy()

    def _in_blocks(self, arrays: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The values over arrays that broadcast to a shape, for some points after others."""
        values = np.empty(math.prod(shape))
        flat = [each.item() if each.size == 1 else np.ravel(np.broadcast_to(each, shape)) for each in arrays]
        for start in range(0, values.size, BLOCK):
            block = slice(start, start + BLOCK)
            within = (each[block] if isinstance(each, np.ndarray) else each for each in flat)
            values[block] = self._of_arrays(*within)
        return values.reshape(shape)


def _points(values: Array, shape: tuple[int, ...]) -> Iterable[float]:
    """The values at the points of a shape, in order; a single value without end."""
    if values.size == 1:
        return repeat(values.item())
    return np.broadcast_to(values, shape).ravel().tolist()


def _function(
    names: Sequence[str], steps: dict[tuple[str, ...], str], results: Sequence[str], several: bool = False
) -> str:
    """Steps as a Python function of these numbers, without those whose result is not used.

    several: whether it returns a tuple.

    A variable is used again once its value is no longer needed, so that few arrays exist at once.
    """
    last_use = dict.fromkeys(results, len(steps))
    for number, ((_, *inputs), name) in reversed([*enumerate(steps.items())]):
        if name in last_use:
            for each in inputs:
                last_use.setdefault(each, number)
    variables: dict[str, str] = {}
    free: list[str] = []
    lines = []
    for number, ((function, *inputs), name) in enumerate(steps.items()):
        if name not in last_use:
            continue
        written = _written(function, [variables.get(each, each) for each in inputs])
        ending = {each for each in inputs if each in variables and last_use[each] == number}
        free.extend(variables[each] for each in sorted(ending))
        variables[name] = free.pop() if free else f"x{len(set(variables.values()))}"
        lines.append(f"    {variables[name]} = {written}\n")
    result = ", ".join(variables.get(each, each) for each in results)
    returned = f"({result},)" if several and result else result or "()"
    return f"def program({', '.join(names)}):\n{''.join(lines)}    return {returned}\n"


INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "equal": "==",
}
"""Functions of numpy that have an operator."""


MASKS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "isfinite"))
"""Functions of numpy whose results are true or false."""


NEUTRAL = {
    "add": ("0.0", "0"),
    "subtract": ("0.0", "0"),
    "multiply": ("1.0", "1"),
    "divide": ("1.0", "1"),
}
"""Functions of two numbers -> the second number with which they change nothing."""
COMMUTATIVE = ("add", "multiply")
"""Those of which it may also be the first."""


def _written(function: str, inputs: Sequence[str]) -> str:
    """A step as an expression."""
    if function in INFIX:
        return f" {INFIX[function]} ".join(inputs)
    if function == "negative":
        return f"-{inputs[0]}"
    return f"{function}({', '.join(inputs)})"


def _part(values: Sequence[Any], index: int) -> Any:
    """One result of a function that has several."""
    return values[index]


def _where(condition: bool, chosen: float, other: float) -> float:
    return chosen if condition else other


def _maximum(a: float, b: float) -> float:
    return a if a > b else b


def _minimum(a: float, b: float) -> float:
    return a if a < b else b


def _clip(value: float, low: float, high: float) -> float:
    return _minimum(_maximum(value, low), high)


def _interp(at: float, places: list[float], values: list[float]) -> float:
    """`numpy.interp` at one place."""
    if at <= places[0]:
        return values[0]
    if at >= places[-1]:
        return values[-1]
    i = bisect_right(places, at) - 1
    slope = (values[i + 1] - values[i]) / (places[i + 1] - places[i])
    return slope * (at - places[i]) + values[i]


NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "clip": _clip,
    "divmod": divmod,
    "exp": math.exp,
    "expm1": math.expm1,
    "floor": math.floor,
    "interp": _interp,
    "isfinite": math.isfinite,
    "log": math.log,
    "log1p": math.log1p,
    "log2": math.log2,
    "maximum": _maximum,
    "minimum": _minimum,
    "negative": float.__neg__,
    "part": _part,
    "searchsorted": bisect_left,
    "sqrt": math.sqrt,
    "take": _part,
    "where": _where,
}
"""Functions of numpy -> the same for plain numbers."""
