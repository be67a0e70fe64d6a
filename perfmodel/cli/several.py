"""Makes a question for each combination of listed values, such as ``--batch 1,8 --context 1k,8k``."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

from perfmodel.answers.declaration import Question, arguments
from perfmodel.answers.readers import Read
from perfmodel.errors import InputError

MAX_POINTS = 1000
"""Largest number of answers of one command. This many answers take about ten seconds."""


def questions_of(
    question_class: type[Question], typed: dict[str, Any], several: tuple[str, ...]
) -> Iterator[Question]:
    """Yields a question for each combination of the given values. The last argument of `several` varies
    fastest.

    Raises InputError if an argument that is not in `several` is a list, and for more than `MAX_POINTS`
    combinations.
    """
    lists: dict[str, tuple[Any, ...]] = {}
    for name, argument in arguments(question_class).items():
        always_a_list = argument.many is argument.read
        if argument.many is None or always_a_list or name not in typed:
            continue
        if name in several:
            lists[name] = argument.many(typed[name], argument.flag)
        else:
            _refuse_list(argument.many, typed[name], argument.flag)
    points = math.prod(map(len, lists.values()))
    if points > MAX_POINTS:
        flags = ", ".join(arguments(question_class)[name].flag for name in several)
        raise InputError(
            f"{flags}: at most {MAX_POINTS} points here, given {points}; `perfmodel sweep` takes more"
        )
    order = [name for name in several if name in lists]
    for point in itertools.product(*(lists[name] for name in order)):
        yield question_class(**typed | dict(zip(order, point, strict=True)))


def _refuse_list(many: Read, text: str, flag: str) -> None:
    """Raises InputError for a list of several values. Other wrong values are refused when they are read."""
    try:
        count = len(many(text, ""))
    except InputError:
        return
    if count > 1:
        raise InputError(f"{flag}: must be one value here, given {count}; `perfmodel sweep` takes lists")
