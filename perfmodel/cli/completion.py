"""Completion of the command line in bash, zsh and fish, by click's scripts."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import get_completion_class, shell_complete

from perfmodel.errors import refuse

Command = TypeVar("Command", bound=Callable[..., Any])
VARIABLE = "_PERFMODEL_COMPLETE"
"""Set by a script when it asks for completions."""
PLACES = {
    "bash": ".bash_completions/perfmodel.sh",
    "zsh": ".zfunc/perfmodel.zsh",
    "fish": ".config/fish/completions/perfmodel.fish",
}
"""Shell -> the script in the home folder; fish reads its folder by itself."""


def names(verb: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last name of a list, completed from the names of ``perfmodel VERB list``."""
    before, comma, begun = incomplete.rpartition(",")
    known = import_module(f"perfmodel.cli.{verb}").CATALOGUE.names()
    return [before + comma + name for name in known if name.startswith(begun)]


def script() -> tuple[str, str]:
    """Name of the current shell, and its script. Raises InputError for a shell that click does not know."""
    shell = os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(shell) if shell in PLACES else None
    if found is None:
        raise refuse("SHELL", None, f"the path of {', '.join(PLACES)}", shell)
    return shell, found(click.Command("perfmodel"), {}, "perfmodel", VARIABLE).source()


def answer(command: click.Command, asked: str) -> int:
    """Print what a script asks for: exit status."""
    return shell_complete(command, {}, "perfmodel", VARIABLE, asked)


def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the script, for ``--show-completion``."""
    if asked:
        click.echo(script()[1])
        ctx.exit()


def install(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Write the script, and a line that reads it, for ``--install-completion``."""
    if not asked:
        return
    shell, text = script()
    place, settings = Path.home() / PLACES[shell], Path.home() / f".{shell}rc"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    line = f"source '{place}'"
    known = settings.read_text(encoding="utf-8") if settings.is_file() else ""
    if shell != "fish" and line not in known.splitlines():
        settings.write_text(f"{known}\n{line}\n", encoding="utf-8")
    click.echo(f"{shell} completion installed in {place}; begins with the next terminal")
    ctx.exit()


def flags(command: Command) -> Command:
    """Add both flags."""
    for name, callback, words in (
        ("--show-completion", show, "Show completion for the current shell, to copy or customize it."),
        ("--install-completion", install, "Install completion for the current shell."),
    ):
        add = click.option(
            name, callback=callback, help=words, is_flag=True, is_eager=True, expose_value=False
        )
        command = add(command)
    return command
