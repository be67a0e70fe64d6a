"""Writes a question to `traffic` as a command."""

import shlex
from collections.abc import Iterator
from typing import Any

from perfmodel.answers.declaration import arguments
from perfmodel.answers.load.traffic_query import TrafficQuery


def command_of(question: TrafficQuery) -> str:
    """The `perfmodel traffic` command for this question. Arguments with default values are left out."""
    return shlex.join(["perfmodel", "traffic", *_words(question)])


def _words(question: TrafficQuery) -> Iterator[str]:
    """The flags of the command, each followed by its value."""
    for name, argument in arguments(TrafficQuery).items():
        value = getattr(question, name)
        if value == argument.fallback:
            continue
        yield argument.flag
        if value is not True:
            yield _text(value)


def _text(value: Any) -> str:
    """A value in the form of the command line."""
    if isinstance(value, dict):
        return ",".join(f"{name}:{limit:g}" for name, limit in value.items())
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    tokens = getattr(value, "tokens", None)
    return str(value if tokens is None else tokens)
