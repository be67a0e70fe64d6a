"""Values of a scenario that do not depend on its acceptance, each computed once."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def once(function: Callable[P, T]) -> Callable[P, T]:
    """Keeps the results of a function of a scenario and a few other values, so that equal arguments are
    computed once. The function must not depend on the acceptance.
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
