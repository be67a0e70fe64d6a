"""Commands whose ``--help`` has groups of flags, defaults and one example. Aliases of flags work but are not
listed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from perfmodel.errors import unknown_name

QUESTION, OUTPUT = "Question", "Output"
GROUPS = (QUESTION, "Prefix cache", "Rollout", "Draft", "Acceptance", "Formats", "Engine", "Run", OUTPUT)
"""Headings of flags, in the order of ``--help``; each `Argument` names one."""
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
        self.group, self.shown = group, shown


class Place(click.Argument):
    """A positional argument. words: its meaning. shown: its default."""

    def __init__(self, names: Sequence[str], words: str, shown: str | None, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.words, self.shown = words, shown

    def make_metavar(self, ctx: click.Context) -> str:
        """See `click.Argument`."""
        return f"{self.metavar}" if self.required else f"[{self.metavar}]{'...' * (self.nargs < 0)}"


class GroupedCommand(click.Command):
    """A command whose ``--help`` is in groups. example: the words after the command in its example."""

    def __init__(self, *settings: Any, example: str | None = None, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the positional arguments, then the flags by heading."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *GROUPS)}
        params: list[Any] = self.get_params(ctx)
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


command = partial(click.command, cls=GroupedCommand)
"""Makes a command that belongs to no group."""


def _flags(param: Any) -> str:
    """A short flag, the flag itself, and the form of its value."""
    short = [flag for flag in param.opts if not flag.startswith("--")]
    own = next(flag for flag in param.opts if flag.startswith("--"))
    return ", ".join([*short, own]) + ("" if param.is_flag else f" {param.metavar}")


def _help_text(words: str, param: Any) -> str:
    """The meaning of a flag, and its default."""
    default = getattr(param, "shown", None)
    shown = "" if default is None else f" [default: {default}]"
    return f"{words}{' [required]' * param.required}{shown}"
