"""Flags from declared arguments: `takes` adds those of a question to a command, `flagged` those of its
parameters.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer

from perfmodel.answers.question.arguments import Argument, Question, arguments, declared_by
from perfmodel.answers.question.readers import Read
from perfmodel.cli.help import OUTPUT, GroupedCommand
from perfmodel.errors import InputError

MAX_POINTS = 1000
"""Answers of one command: some ten seconds of them."""
Command = Callable[..., Any]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all there is to say.", rich_help_panel=OUTPUT)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.", rich_help_panel=OUTPUT)]


class App(typer.Typer):
    """A `typer.Typer` as all of the command line is made, whose commands print their flags in groups."""

    def __init__(self, **settings: Any) -> None:
        plain: dict[str, Any] = {
            "add_completion": False,
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
        }
        super().__init__(**plain | settings)

    def command(  # type: ignore[override]
        self, name: str | None = None, *, example: str = "", **settings: Any
    ) -> Callable[[Command], Command]:
        """As typer's. example: what follows the command in its example, which ``--help`` prints."""

        def register(command: Command) -> Command:
            vars(command)["example"] = example
            return registered(command)

        registered = super().command(name, **{"cls": GroupedCommand} | settings)
        return register


def takes(kind: type[Question], *several: str, max_points: int = MAX_POINTS) -> Callable[[Command], Command]:
    """Replace a command's first parameter, a question of `kind`, by one flag for each of its arguments.

    several: arguments that may be lists; the command then gets a list of questions, one for each combination.
    """

    def decorate(command: Command) -> Command:
        asked, own = arguments(kind), _declared(command)
        _, *rest = inspect.signature(command).parameters.values()

        @wraps(command)
        def filled(**values: Any) -> Any:
            given = {name: values.pop(name) for name in asked}
            typed = {name: value for name, value in given.items() if _is_given(value)}
            questions = list(made(kind, typed, several, max_points))
            return command(questions if several else questions[0], **_read(own, values))

        defaults = inspect.signature(kind).parameters
        flags = [_parameter(n, a, defaults[n].default) for n, a in asked.items()]
        return _with(filled, [*flags, *_flags(own, rest)])

    return decorate


def flagged(command: Command) -> Command:
    """Turns a command's parameters that are annotated with an `Argument` into flags, each read before the
    call.
    """
    own = _declared(command)

    @wraps(command)
    def called(**values: Any) -> Any:
        return command(**_read(own, values))

    return _with(called, _flags(own, inspect.signature(command).parameters.values()))


Declared = dict[str, tuple[Argument, Any]]
"""Parameter -> its argument, and its default."""
_EMPTY = inspect.Parameter.empty


def _declared(command: Command) -> Declared:
    parameters = inspect.signature(command).parameters
    hints = {
        name: declared_by(name, hint) for name, hint in get_type_hints(command, include_extras=True).items()
    }
    return {
        name: (argument, parameters[name].default) for name, argument in hints.items() if argument is not None
    }


def _read(own: Declared, values: dict[str, Any]) -> dict[str, Any]:
    read = {n: a.value(values[n], n) if _is_given(values[n]) else default for n, (a, default) in own.items()}
    return values | read


def _flags(own: Declared, parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    return [_parameter(p.name, *own[p.name]) if p.name in own else p for p in parameters]


def _is_given(value: Any) -> bool:
    return value not in (None, False, [])


def _with(command: Command, parameters: list[inspect.Parameter]) -> Command:
    """The command with a signature that typer makes flags of."""
    kept = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    command.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in kept}
    return command


def made(
    kind: type[Question], typed: dict[str, Any], several: tuple[str, ...], max_points: int
) -> Iterator[Question]:
    """A question for each combination of the given values; only arguments named in `several` may be lists."""
    lists: dict[str, tuple[Any, ...]] = {}
    for name, argument in arguments(kind).items():
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
        flags = ", ".join(arguments(kind)[name].flag for name in several)
        raise InputError(
            f"{flags}: at most {max_points} points here, given {points}; `perfmodel sweep` takes more"
        )
    order = [name for name in several if name in lists]
    for point in itertools.product(*(lists[name] for name in order)):
        yield kind(**typed | dict(zip(order, point, strict=True)))


def _how_many(many: Read, text: str) -> int:
    """Number of values in a list; 1 for other values, which are refused when they are read."""
    try:
        return len(many(text, ""))
    except InputError:
        return 1


def _parameter(name: str, argument: Argument, default: Any) -> inspect.Parameter:
    """The parameter that typer makes the flag, or the place, of an argument of."""
    switch, needed = default is False, default is _EMPTY
    unshown = default in (None, ()) or switch or needed or argument.repeated
    shown = argument.default or (None if unshown else _spelled(default))
    common: dict[str, Any] = {
        "metavar": argument.metavar or "|".join(argument.choices) or None,
        "help": argument.help,
        "show_default": False if shown is None or needed else shown,
    }
    if argument.listed:
        common["autocompletion"] = completion(argument.listed)
    if argument.place:
        option = typer.Argument(**common)
    else:
        flags = argument.flag, *argument.also.split()
        option = typer.Option(*flags, **common, rich_help_panel=argument.group)
    typed: Any = bool if switch else list[str] | None if argument.repeated else str if needed else str | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_EMPTY if needed else default if switch else None,
        annotation=Annotated[typed, option],
    )


def completion(verb: str) -> Callable[[str], list[str]]:
    """Completes the last name of a list in a shell, from the names of ``perfmodel VERB list``."""

    def completed(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        known = import_module(f"perfmodel.cli.{verb}").CATALOGUE.names()
        return [before + comma + name for name in known if name.startswith(begun)]

    return completed


def _spelled(default: Any) -> str:
    values = default if isinstance(default, tuple) else (default,)
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
