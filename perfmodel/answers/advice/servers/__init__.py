"""Writes the command lines that start engines. Each engine is one file in this folder, with the engine's
name.
"""

from functools import cache

from perfmodel.answers.advice.servers.base import ServedFile, ServedTarget, Server, Setup, Started
from perfmodel.plugins import class_in, names_in
from perfmodel.specs import ENGINES

__all__ = ["ServedFile", "ServedTarget", "Server", "Setup", "Started", "servers"]


@cache
def servers() -> dict[str, Server]:
    """The engines with a command line, in the order of `ENGINES`: value of ``--engine`` -> object that
    writes the line.
    """
    known = names_in(__path__)
    return {word: class_in(f"{__name__}.{word}", Server)(word) for word in ENGINES if word in known}  # type: ignore[type-abstract]
