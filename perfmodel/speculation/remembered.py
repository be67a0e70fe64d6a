"""Stores results of functions of a scenario that do not depend on its acceptance, so that each is computed
only once.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def once(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function of a scenario and a few other values. The results are stored, so the function runs
    only once for equal arguments. The function must not depend on the acceptance.
    """

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        scenario, *others = args
        known: dict[Any, T] = scenario.known  # type: ignore[attr-defined]
        key = (function, *others, *kwargs.items())
        if key not in known:
            known[key] = function(*args, **kwargs)
        return known[key]

    return remembered
