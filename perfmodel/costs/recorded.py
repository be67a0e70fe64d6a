"""Numbers without a value, which record the arithmetic of a formula."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Recorder(Protocol):
    """The interface of an object that stores the steps of a formula."""

    def add(self, function: str, inputs: Sequence[Any]) -> "Recorded":
        """Records a call of the numpy function with this name, and returns its result."""


class Untraceable(TypeError):
    """The error that is raised if a formula needs the value of a recorded number, for example to choose
    between branches.
    """


class Recorded(NDArrayOperatorsMixin):
    """A number without a value. Each arithmetic operation on it, and each numpy function of it, is added to
    its program.
    """

    __slots__ = ("is_mask", "name", "program")
    ndim = 1  # the number may represent an array

    def __init__(self, program: Recorder, name: str, is_mask: bool = False) -> None:
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
        if func is np.any:  # unknown, so the formula also computes terms that may be zero
            return True
        if kwargs:
            raise Untraceable(f"{func.__name__} of a recorded number, with {', '.join(kwargs)}")
        return self.program.add(func.__name__, args)

    def astype(self, kind: Any) -> "Recorded":
        """Converts the result of a comparison to 0 or 1."""
        return self.program.add("multiply", (self, 1.0))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("a recorded number has no value")

    def __bool__(self) -> bool:
        raise Untraceable("a recorded number is neither true nor false")
