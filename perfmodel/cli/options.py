"""Flags from declared arguments: `takes` adds those of a question to a command, `flagged` those of its
parameters.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

import click

from perfmodel.answers.declaration import Argument, Question, arguments, declared_by
from perfmodel.answers.readers import Read
from perfmodel.cli import completion
from perfmodel.cli.help import OUTPUT, Flag, Place
from perfmodel.errors import InputError

MAX_POINTS = 1000
"""Most answers of one command: some ten seconds of work."""
Command = Callable[..., Any]
Verbose = Annotated[bool, Argument("Print all details.", also="-v", group=OUTPUT)]
Json = Annotated[bool, Argument("Print JSON instead of text.", group=OUTPUT)]


def takes(
    question_class: type[Question], *several: str, max_points: int = MAX_POINTS
) -> Callable[[Command], Command]:
    """Replace a command's first parameter, a question of `question_class`, by a flag for each argument.

    several: arguments that may be lists; the command then gets a list of questions, one for each combination.
    """

    def decorate(command: Command) -> Command:
        own, defaults = _declared(command), inspect.signature(question_class).parameters

        @wraps(command)
        def filled(**values: Any) -> Any:
            given = {name: values.pop(name) for name in arguments(question_class)}
            typed = {name: value for name, value in given.items() if _is_given(value)}
            questions = list(made(question_class, typed, several, max_points))
            return command(questions if several else questions[0], **_read(own, values))

        asked = {
            name: (argument, defaults[name].default) for name, argument in arguments(question_class).items()
        }
        return _with(filled, asked | own)

    return decorate


def flagged(command: Command) -> Command:
    """Turns a command's parameters into flags or positional arguments, each read before the call."""
    own = _declared(command)

    @wraps(command)
    def called(**values: Any) -> Any:
        return command(**_read(own, values))

    return _with(called, own)


Declared = dict[str, tuple[Argument, Any]]
"""Parameter -> its argument, and its default."""
_EMPTY = inspect.Parameter.empty


def _declared(command: Command) -> Declared:
    """The parameters that are annotated with an `Argument`."""
    parameters = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    found = {name: declared_by(name, hints.get(name)) for name in parameters}
    return {name: (argument, parameters[name].default) for name, argument in found.items() if argument}


def _read(own: Declared, values: dict[str, Any]) -> dict[str, Any]:
    return {n: a.value(values[n], n) if _is_given(values[n]) else default for n, (a, default) in own.items()}


def _is_given(value: Any) -> bool:
    return value not in (None, False, ())


def _with(command: Command, declared: Declared) -> Command:
    """The command with the parameters that click makes from its arguments."""
    made = [_parameter(name, argument, default) for name, (argument, default) in declared.items()]
    vars(command)["__click_params__"] = made[::-1]
    return command


def made(
    question_class: type[Question], typed: dict[str, Any], several: tuple[str, ...], max_points: int
) -> Iterator[Question]:
    """A question for each combination of the given values. Only arguments named in `several` may be lists."""
    lists: dict[str, tuple[Any, ...]] = {}
    for name, argument in arguments(question_class).items():
        if argument.many is None or argument.many is argument.read or name not in typed:
            continue
        if name in several:
            lists[name] = argument.many(typed[name], argument.flag)
        elif (values := _how_many(argument.many, typed[name])) > 1:
            raise InputError(
                f"{argument.flag}: must be one value here, given {values}; `perfmodel sweep` takes lists"
            )
    points = math.prod(map(len, lists.values()))
    if points > max_points:
        flags = ", ".join(arguments(question_class)[name].flag for name in several)
        raise InputError(
            f"{flags}: at most {max_points} points here, given {points}; `perfmodel sweep` takes more"
        )
    order = [name for name in several if name in lists]
    for point in itertools.product(*(lists[name] for name in order)):
        yield question_class(**typed | dict(zip(order, point, strict=True)))


def _how_many(many: Read, text: str) -> int:
    """Number of values in a list; 1 for other values, which are refused when they are read."""
    try:
        return len(many(text, ""))
    except InputError:
        return 1


def _parameter(name: str, argument: Argument, default: Any) -> click.Parameter:
    """A parameter of the command line. It converts nothing, because its `Argument` reads the text."""
    switch, needed = default is False, default is _EMPTY
    unshown = default in (None, ()) or switch or needed or argument.repeated
    common: dict[str, Any] = {
        "metavar": argument.metavar or "|".join(argument.choices) or None,
        "shown": argument.default or (None if unshown else _spelled(default)),
        "required": needed,
        "type": bool if switch else str,
    }
    if argument.listed:
        common["shell_complete"] = partial(completion.names, argument.listed)
    if argument.place:
        return Place([name], argument.help, nargs=-1 if argument.repeated else 1, **common)
    flags = name, argument.flag, *argument.also.split()
    common |= {"help": argument.help, "is_flag": switch or None, "multiple": argument.repeated}
    return Flag(flags, argument.group, **common)


def _spelled(default: Any) -> str:
    values = default if isinstance(default, tuple) else (default,)
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
