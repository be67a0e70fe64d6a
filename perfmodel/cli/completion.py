"""Completion of the command line in bash, zsh and fish, by click's scripts."""

from importlib import import_module

import click

VARIABLE = "_PERFMODEL_COMPLETE"
"""The variable asks for the script of a shell (``bash_source``). The script sets it to ask for completions.
"""


def names(verb: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last name of a list, completed from the names of ``perfmodel VERB list``."""
    before, comma, begun = incomplete.rpartition(",")
    return [
        before + comma + name
        for name in import_module(f"perfmodel.cli.{verb}").CATALOGUE.names()
        if name.startswith(begun)
    ]
