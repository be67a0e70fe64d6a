"""The engines whose line to start is known. Each is one file, found by the engine's name in this folder."""

from functools import cache

from perfmodel.answers.advice.servers.base import ServedFile, ServedTarget, Server, Setup, Started
from perfmodel.plugins import class_in, names_in
from perfmodel.specs import ENGINES

__all__ = ["ServedFile", "ServedTarget", "Server", "Setup", "Started", "servers"]


@cache
def servers() -> dict[str, Server]:
    """Word of ``--engine`` -> the class that writes its command line, in the order of `ENGINES`."""
    known = names_in(__path__)
    return {word: class_in(f"{__name__}.{word}", Server)(word) for word in ENGINES if word in known}  # type: ignore[type-abstract]
