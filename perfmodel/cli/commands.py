"""Commands from declared arguments.

`takes` adds the flags of a question to a command, `flagged` those of its parameters, and `verb` makes the
command of an answer. ``--help`` has groups of flags, defaults and one example. Aliases of flags work but are
not listed. A command with many flags lists the main ones, and all with ``--help-all``.
"""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import click

from perfmodel.answers.declaration import Argument, Question, Verb, arguments, declared_by, flag
from perfmodel.answers.readers import Read
from perfmodel.cli.output import each, show, show_rows
from perfmodel.errors import InputError, unknown_name

QUESTION = "Question"
OUTPUT = "Output"
GROUPS = (
    QUESTION,
    "Load",
    "Prefix cache",
    "Rollout",
    "Draft",
    "Acceptance",
    "Formats",
    "Engine",
    "Rack",
    "Pools",
    "Run",
    OUTPUT,
)
"""Headings of flags, in the order of ``--help``; each `Argument` names one."""
MAIN = (
    *("model", "hardware", "gpus", "tp", "batch", "context", "input_len", "output_len", "request_rate"),
    *(
        "max_concurrency",
        "slo",
        "size",
        "draft",
        "gamma",
        "alpha",
        "rates",
        "engine",
        "weights",
        "output",
        "json",
    ),
)
"""Arguments that ``--help`` lists for a command with more than `MOST_FLAGS`; ``--help-all`` lists all."""
MOST_FLAGS = 20
HELP_ALL = "--help-all"
COMMON = ("model", "hardware", "batch", "context", "alpha")
"""Arguments that most questions need. Help marks a verb that has all of them."""
MARK = "* the flags that most questions need"
LLAMA = "--model llama-3.1-8b --hardware h100"
"""The subject of most examples."""


class Flag(click.Option):
    """A flag below the heading `group` of ``--help``. shown: its default as help prints it; None without
    one.
    """

    def __init__(self, names: Sequence[str], group: str, shown: str | None, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.group = group
        self.shown = shown


class Place(click.Argument):
    """A positional argument. words: its meaning. shown: its default."""

    def __init__(self, names: Sequence[str], words: str, shown: str | None, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.words = words
        self.shown = shown

    def make_metavar(self, ctx: click.Context) -> str:
        """See `click.Argument`."""
        if self.required:
            return f"{self.metavar}"
        return f"[{self.metavar}]{'...' * (self.nargs < 0)}"


class GroupedCommand(click.Command):
    """A command whose ``--help`` is in groups. example: the words after the command in its example."""

    def __init__(self, *settings: Any, example: str | None = None, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.example = example

    @property
    def is_long(self) -> bool:
        """Whether ``--help`` leaves flags out."""
        return len(self.params) > MOST_FLAGS

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """See `click.Command`; a long one has ``--help-all`` too."""
        params = super().get_params(ctx)
        return [*params, _help_all()] if self.is_long else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the positional arguments, then the flags by heading."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *GROUPS)}
        params: list[Any] = self.get_params(ctx)
        if self.is_long and HELP_ALL not in ctx.meta:
            declared = {param.name for param in self.params}
            params = [p for p in params if p.required or p.name in MAIN or p.name not in declared]
        common = COMMON if {*COMMON} <= {param.name for param in params} else ()
        for param in params:
            if isinstance(param, Place):
                rows["Arguments"].append((f"{param.metavar}", _help_text(param.words, param)))
            else:
                flags = ("* " if param.name in common else "") + _flags(param)
                rows.setdefault(getattr(param, "group", OUTPUT), []).append(
                    (flags, _help_text(param.help, param))
                )
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)
        if common:
            formatter.write_paragraph()
            formatter.write_text(MARK)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        if self.example is not None:
            with formatter.section("Example"):
                formatter.write_text(f"{ctx.command_path} {self.example}".rstrip())


class App(click.Group):
    """A group of such commands. For an unknown command it lists them."""

    command_class = GroupedCommand

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of their declaration."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See `click.Group`. Raises InputError for an unknown verb."""
        if cmd_name not in self.commands:
            raise unknown_name(f"perfmodel {ctx.info_name}", "command", cmd_name, self.commands)
        return super().get_command(ctx, cmd_name)


def _help_all() -> click.Option:
    """The flag that shows the help with all flags."""

    def show_all(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
        if is_given:
            ctx.meta[HELP_ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    words = "Show all flags and exit."
    return click.Option(
        [HELP_ALL], is_flag=True, is_eager=True, expose_value=False, callback=show_all, help=words
    )


command = partial(click.command, cls=GroupedCommand)
"""Makes a command that belongs to no group."""


def _flags(param: Any) -> str:
    """A short flag, the flag itself, and the form of its value."""
    short = [flag for flag in param.opts if not flag.startswith("--")]
    long = next(flag for flag in param.opts if flag.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar}"
    return ", ".join([*short, long]) + value


def _help_text(words: str, param: Any) -> str:
    """The meaning of a flag, and its default."""
    default = getattr(param, "shown", None)
    shown = "" if default is None else f" [default: {default}]"
    return f"{words}{' [required]' * param.required}{shown}"


MAX_POINTS = 1000
"""Most answers of one command: some ten seconds of work."""
Command = Callable[..., Any]
Verbose = Annotated[bool, Argument("Print all details.", also="-v", group=OUTPUT)]
Json = Annotated[bool, Argument("Print JSON instead of text.", group=OUTPUT)]


def takes(question_class: type[Question], *several: str) -> Callable[[Command], Command]:
    """Replace a command's first parameter, a question of `question_class`, by a flag for each argument.

    several: arguments that may be lists; the command then gets a list of questions, one for each combination.
    """

    def decorate(command: Command) -> Command:
        of_command = _declared(command)
        defaults = inspect.signature(question_class).parameters

        @wraps(command)
        def filled(**values: Any) -> Any:
            given = {name: values.pop(name) for name in arguments(question_class)}
            typed = {name: value for name, value in given.items() if _is_given(value)}
            questions = list(made(question_class, typed, several))
            return command(questions if several else questions[0], **_read(of_command, values))

        declared = {
            name: (argument, defaults[name].default) for name, argument in arguments(question_class).items()
        }
        return _with_parameters(filled, declared | of_command)

    return decorate


def flagged(command: Command) -> Command:
    """Turns a command's parameters into flags or positional arguments, each read before the call."""
    declared = _declared(command)

    @wraps(command)
    def called(**values: Any) -> Any:
        return command(**_read(declared, values))

    return _with_parameters(called, declared)


Declared = dict[str, tuple[Argument, Any]]
"""Parameter -> its argument, and its default."""
_EMPTY = inspect.Parameter.empty


def _declared(command: Command) -> Declared:
    """The parameters that are annotated with an `Argument`."""
    parameters = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    declared = {name: declared_by(name, hints.get(name)) for name in parameters}
    return {name: (argument, parameters[name].default) for name, argument in declared.items() if argument}


def _read(declared: Declared, values: dict[str, Any]) -> dict[str, Any]:
    """Parameter -> the value that its argument reads from the given one, or its default."""
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
    made = [_parameter(name, argument, default) for name, (argument, default) in declared.items()]
    vars(command)["__click_params__"] = made[::-1]
    return command


def made(
    question_class: type[Question], typed: dict[str, Any], several: tuple[str, ...]
) -> Iterator[Question]:
    """A question for each combination of the given values. Only arguments named in `several` may be lists."""
    lists: dict[str, tuple[Any, ...]] = {}
    for name, argument in arguments(question_class).items():
        if argument.many is None or argument.many is argument.read or name not in typed:
            continue
        if name in several:
            lists[name] = argument.many(typed[name], argument.flag)
        elif (values := _number_of_values(argument.many, typed[name])) > 1:
            raise InputError(
                f"{argument.flag}: must be one value here, given {values}; `perfmodel sweep` takes lists"
            )
    points = math.prod(map(len, lists.values()))
    if points > MAX_POINTS:
        flags = ", ".join(arguments(question_class)[name].flag for name in several)
        raise InputError(
            f"{flags}: at most {MAX_POINTS} points here, given {points}; `perfmodel sweep` takes more"
        )
    order = [name for name in several if name in lists]
    for point in itertools.product(*(lists[name] for name in order)):
        yield question_class(**typed | dict(zip(order, point, strict=True)))


def _number_of_values(many: Read, text: str) -> int:
    """Number of values in a list; 1 for other values, which are refused when they are read."""
    try:
        return len(many(text, ""))
    except InputError:
        return 1


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
    """The command of `answer`, whose docstring becomes the help. `text` prints the answer.

    several: arguments that may be lists; `text` then gets a sequence of answers, and the JSON has rows.
    """
    help_text = re.split(r"\s+Raises\s+InputError", inspect.getdoc(inspect.unwrap(answer)) or "")[0]
    if several:
        help_text += f"\n\nSeveral values of {', '.join(map(flag, several))} give one row each."

    @command(help=help_text, example=example)
    @takes(answer.question, *several)
    def app(question: Any, json: Json = False) -> None:
        if several:
            show_rows(each(answer, question), json, text)
        else:
            show(answer(question), json, text)

    return app
