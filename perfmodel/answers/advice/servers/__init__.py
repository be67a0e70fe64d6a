"""Writes the command lines that start servers. Each engine has a file in this folder with its name."""

from functools import cache

from perfmodel.answers.advice.servers.base import ServedFile, ServedTarget, Server, Setup, Started
from perfmodel.plugins import class_in, names_in
from perfmodel.specs import ENGINES

__all__ = ["ServedFile", "ServedTarget", "Server", "Setup", "Started", "servers"]


@cache
def servers() -> dict[str, Server]:
    """Value of ``--engine`` -> the object that writes the command line of this engine. The engines are in the
    order of `ENGINES`.
    """
    known = names_in(__path__)
    return {word: class_in(f"{__name__}.{word}", Server)(word) for word in ENGINES if word in known}  # type: ignore[type-abstract]
