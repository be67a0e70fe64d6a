"""Makes commands from declared arguments. `takes` adds the flags of a question to a command. `flagged` adds a
flag for each parameter. `verb` makes the command of a verb such as `compare`.
"""

import inspect
import re
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Annotated, Any, NamedTuple, get_type_hints

import click

from perfmodel.answers.declaration import Argument, Question, Verb, arguments, declared_by, flag
from perfmodel.cli.grouped_help import OUTPUT, Flag, Place, command
from perfmodel.cli.output import each, show, show_rows
from perfmodel.cli.several import questions_of

LLAMA = "--model llama-3.1-8b --hardware h100"
"""The subject of most examples."""

Command = Callable[..., Any]
Verbose = Annotated[bool, Argument("Print all details.", also="-v", group=OUTPUT)]
Json = Annotated[bool, Argument("Print JSON instead of text.", group=OUTPUT)]


def takes(question_class: type[Question], *several: str) -> Callable[[Command], Command]:
    """Replaces the first parameter of a command, which is a question, with one flag for each argument of
    `question_class`.

    - several: arguments that may be lists. If there are any, the command gets a list of questions, one for
      each combination.
    """

    def decorate(command: Command) -> Command:
        of_command = _declared(command)
        defaults = inspect.signature(question_class).parameters

        @wraps(command)
        def filled(**values: Any) -> Any:
            given = {name: values.pop(name) for name in arguments(question_class)}
            typed = {name: value for name, value in given.items() if _is_given(value)}
            questions = list(questions_of(question_class, typed, several))
            return command(questions if several else questions[0], **_read(of_command, values))

        declared = {
            name: Parameter(argument, defaults[name].default)
            for name, argument in arguments(question_class).items()
        }
        return _with_parameters(filled, declared | of_command)

    return decorate


def flagged(command: Command) -> Command:
    """Turns a command's parameters into flags or positional arguments. The values are parsed before the
    call.
    """
    declared = _declared(command)

    @wraps(command)
    def called(**values: Any) -> Any:
        return command(**_read(declared, values))

    return _with_parameters(called, declared)


class Parameter(NamedTuple):
    """A parameter of a command.

    - default: its default value, or `_EMPTY` if the user must give a value.
    """

    argument: Argument
    default: Any


Declared = dict[str, Parameter]
"""Name of a parameter -> its declaration."""
_EMPTY = inspect.Parameter.empty


def _declared(command: Command) -> Declared:
    """The parameters that are annotated with an `Argument`."""
    parameters = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    declared = {name: declared_by(name, hints.get(name)) for name in parameters}
    return {
        name: Parameter(argument, parameters[name].default)
        for name, argument in declared.items()
        if argument is not None
    }


def _read(declared: Declared, values: dict[str, Any]) -> dict[str, Any]:
    """Parameter -> the value that its argument reads from the command line, or its default."""
    read = {}
    for name, (argument, default) in declared.items():
        given = values[name]
        read[name] = argument.value(given, name) if _is_given(given) else default
    return read


def _is_given(value: Any) -> bool:
    """Whether the command line states a value: click gives None, False or () for an absent flag."""
    return value not in (None, False, ())


def _with_parameters(command: Command, declared: Declared) -> Command:
    """The command with the parameters that click makes from its arguments."""
    of_click = [_parameter(name, argument, default) for name, (argument, default) in declared.items()]
    vars(command)["__click_params__"] = of_click[::-1]  # click reverses what decorators have collected
    return command


def _parameter(name: str, argument: Argument, default: Any) -> click.Parameter:
    """A parameter of the command line. It converts nothing, because its `Argument` reads the text."""
    switch = default is False
    needed = default is _EMPTY
    unshown = default in (None, ()) or switch or needed or argument.repeated
    common: dict[str, Any] = {
        "metavar": argument.metavar or "|".join(argument.choices) or None,
        "shown": argument.default or (None if unshown else _spelled(default)),
        "required": needed,
        "type": bool if switch else str,
    }
    if argument.listed:
        common["shell_complete"] = partial(_completed, argument.listed)
    if argument.place:
        return Place([name], argument.help, nargs=-1 if argument.repeated else 1, **common)
    common |= {"help": argument.help, "is_flag": switch or None, "multiple": argument.repeated}
    return Flag((name, argument.flag, *argument.also.split()), argument.group, **common)


def _completed(verb: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last name of a list, completed from the names of ``perfmodel VERB list`` (click's completion in
    bash, zsh and fish).
    """
    before, comma, begun = incomplete.rpartition(",")
    names = import_module(f"perfmodel.cli.{verb}").CATALOGUE.names()
    return [before + comma + name for name in names if name.startswith(begun)]


def _spelled(default: Any) -> str:
    """A default as help shows it: ``8``, ``1,4``."""
    values = default if isinstance(default, tuple) else (default,)
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def verb(
    answer: Verb[..., Any],
    text: Callable[[Any], None],
    *several: str,
    example: str,
) -> click.Command:
    """Makes a command from the function `answer`, whose docstring becomes the help text.

        - text: the function that prints the answer.
    - several: arguments that may be lists. If there are any, `text` gets a sequence of answers, and the JSON
      has rows.
    """
    help_text = re.split(r"\s+Raises\s+InputError", inspect.getdoc(inspect.unwrap(answer)) or "")[0]
    if several:
        help_text += (
            f"\n\nThe answer has a row for each combination of {' and '.join(map(flag, several))} values."
        )

    @command(help=help_text, example=example)
    @takes(answer.question, *several)
    def app(question: Any, json: Json = False) -> None:
        if several:
            show_rows(each(answer, question), json, text)
        else:
            show(answer(question), json, text)

    return app
