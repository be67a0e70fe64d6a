"""Commands whose ``--help`` shows flags in groups, defaults and one example.

If a command has many flags, ``--help`` lists the main flags, and ``--help-all`` lists all. Aliases of flags
work but are not listed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from perfmodel.errors import unknown_name

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
    "model",
    "hardware",
    "gpus",
    "tp",
    "batch",
    "context",
    "input_len",
    "output_len",
    "request_rate",
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
)
"""Arguments that ``--help`` lists for a command with more than `MOST_FLAGS`; ``--help-all`` lists all."""
MOST_FLAGS = 20
HELP_ALL = "--help-all"
COMMON = ("model", "hardware", "batch", "context", "alpha")
"""Arguments that most questions need. Help marks a verb that has all of them."""
MARK = "* the flags that most questions need"
"""The explanation of the mark."""


class Flag(click.Option):
    """A flag.

    - group: its heading in ``--help``.
    - shown: its default as printed by ``--help``; None without a default.
    """

    def __init__(self, names: Sequence[str], group: str, shown: str | None, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.group = group
        self.shown = shown


class Place(click.Argument):
    """A positional argument.

    - words: its description in ``--help``.
    - shown: its default as printed by ``--help``.
    """

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
    """A command whose ``--help`` shows flags in groups.

    - example: the arguments of the example in ``--help``.
    """

    def __init__(self, *settings: Any, example: str | None = None, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.example = example

    @property
    def is_long(self) -> bool:
        """Whether the command has so many flags that ``--help`` lists only the main ones."""
        return len(self.params) > MOST_FLAGS

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """As in `click.Command`, with ``--help-all`` in addition for a long command."""
        params = super().get_params(ctx)
        return [*params, _help_all()] if self.is_long else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the positional arguments, and then the flags by heading."""
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
        """Writes the example."""
        if self.example is not None:
            with formatter.section("Example"):
                formatter.write_text(f"{ctx.command_path} {self.example}".rstrip())


class App(click.Group):
    """A group of `GroupedCommand` objects. For an unknown command, the error lists the known commands."""

    command_class = GroupedCommand

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands in the order of their declaration."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See `click.Group`. Raises InputError for an unknown command."""
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
