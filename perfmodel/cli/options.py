"""Flags from the arguments of a question: `takes` gives them to a command, which gets the question made of them."""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any

import typer

from perfmodel.answers.arguments import Argument, Question, Read, arguments, flag, required
from perfmodel.errors import InputError

MAX_POINTS = 1000
"""Answers of one command: some ten seconds of them."""
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}
"""How every `typer.Typer` of the command line is made."""
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print all there is to say.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def takes(
    kind: type[Question], *several: str, max_points: int = MAX_POINTS
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's first parameter, a question of `kind`, by one flag for each of its arguments.

    several: arguments that may be lists; the command then gets a list of questions, one for each combination.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *rest = inspect.signature(command).parameters.values()

        @wraps(command)
        def filled(**values: Any) -> None:
            given = {name: values.pop(name) for name in arguments(kind)}
            typed = {name: value for name, value in given.items() if value not in (None, False, [])}
            questions = list(made(kind, typed, several, max_points))
            command(questions if several else questions[0], **values)

        kept = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in rest]
        parameters = [*(_parameter(kind, *item) for item in arguments(kind).items()), *kept]
        filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        filled.__annotations__ = {p.name: p.annotation for p in parameters}
        return filled

    return decorate


def made(kind: type[Question], typed: dict[str, Any], several: tuple[str, ...], max_points: int) -> Iterator[Question]:
    """A question for each combination of what was typed, where only those named in `several` may be lists."""
    lists: dict[str, tuple[Any, ...]] = {}
    for name, argument in arguments(kind).items():
        if argument.many is None or argument.many is argument.read or name not in typed:
            continue
        if name in several:
            lists[name] = argument.many(typed[name], flag(name))
        elif (found := _how_many(argument.many, typed[name])) > 1:
            raise InputError(f"{flag(name)}: must be one value here, given {found}; `perfmodel sweep` takes lists")
    points = math.prod(map(len, lists.values()))
    if points > max_points:
        flags = ", ".join(flag(name) for name in several)
        raise InputError(f"{flags}: at most {max_points} points here, given {points}; `perfmodel sweep` takes more")
    order = [name for name in several if name in lists]
    for values in itertools.product(*(lists[name] for name in order)):
        yield kind(**typed | dict(zip(order, values, strict=True)))


def _how_many(many: Read, text: str) -> int:
    """Values in a list; 1 of what is none, which is refused when it is read as one."""
    try:
        return len(many(text, ""))
    except InputError:
        return 1


def _parameter(kind: type[Question], name: str, argument: Argument) -> inspect.Parameter:
    default = inspect.signature(kind).parameters[name].default
    needed = required(kind, name)
    shown = argument.default or (None if default is None or argument.repeated else _spelled(default))
    option = typer.Option(
        flag(name),
        *argument.also.split(),
        metavar=argument.metavar or None,
        help=argument.help,
        show_default=False if shown is None or needed else shown,
    )
    typed: Any = bool if default is False else list[str] | None if argument.repeated else str if needed else str | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else default if default is False else None,
        annotation=Annotated[typed, option],
    )


def _spelled(default: Any) -> str | None:
    if default is False:
        return None
    return f"{default:g}" if isinstance(default, float) else str(default)
