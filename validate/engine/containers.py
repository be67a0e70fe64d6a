"""Reads the command of a container from its declaration in YAML (Docker Compose, Kubernetes) or from a
Dockerfile.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

import yaml

from perfmodel.validate.engine.programs import IMAGE, ServerCommand

_KEY = re.compile(r"\s*(?:- +)?(?:(?:command|args|cmd):|CMD|ENTRYPOINT)(?:\s+(?P<value>.*))?$")
"""The first line of a command or of its arguments."""
_ARGUMENTS = re.compile(r"\s*(?:- +)?(?:args:|CMD\b)")
"""The first line of the arguments. Both a command and its arguments can be declared, in any order."""
_BLOCK = re.compile(r"[>|][-+]?")
"""The first word of a text over several lines in YAML."""
_ITEM = re.compile(r"^\s*- +", re.M)
"""The beginning of an item of a list in YAML."""


def of_container(text: str) -> str | None:
    """The name of the image and the command in one line. If several images are named, the first with a
    declared command counts. None for a text without a declared command.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    containers = list(_containers(lines)) or [lines]
    return next(filter(None, map(_command, containers)), None)


def _command(container: Sequence[str]) -> str | None:
    """The name of the image and the command of a container in one line. None without a declared command."""
    commands: list[str] = []
    arguments: list[str] = []
    for n, line in enumerate(container):
        if _KEY.match(line):
            words = _words(list(_value(container[n:])))
            (arguments if _ARGUMENTS.match(line) else commands).append(words)
    if not commands and not arguments:
        return None
    image = IMAGE.search("\n".join(container))
    command = " ".join([image[0] if image else "", *commands, *arguments]).strip()
    return command if ServerCommand.of(command) else None


def _indent(line: str) -> int:
    """The number of spaces before the first character of a line."""
    return len(line) - len(line.lstrip())


def _column(line: str) -> int:
    """The column of a key. It can follow the dash of a list."""
    item = _ITEM.match(line)
    return item.end() if item else _indent(line)


def _containers(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines of each container that names the image of a server."""
    end = 0
    for at, line in enumerate(lines):
        if at < end or not IMAGE.search(line):
            continue
        column = _column(line)
        start = at
        while start > end and _indent(lines[start]) >= column and _column(lines[start - 1]) >= column:
            start -= 1
        end = at + 1
        while end < len(lines) and _indent(lines[end]) >= column:
            end += 1
        yield lines[start:end]


def _value(lines: Sequence[str]) -> Iterator[str]:
    """The lines of the value of the key in the first line."""
    key = _KEY.match(lines[0])
    assert key
    column = _column(lines[0])
    before = key["value"] or ""
    is_list = before.startswith("[")
    yield before
    for line in lines[1:]:
        is_open = before.rstrip().endswith("\\") or (is_list and not before.rstrip().endswith("]"))
        is_item = _indent(line) == column and _ITEM.match(line)
        if not (is_open or is_item or _indent(line) > column):
            return
        before = line
        yield line


def _words(lines: Sequence[str]) -> str:
    """The words of a value: a list of words, a text over several lines, or the rest of a line."""
    text = "\n".join(lines[1:] if not lines[0] or _BLOCK.fullmatch(lines[0].strip()) else lines)
    if not (text.startswith("[") or _ITEM.match(text)):
        return text
    try:
        items = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return _ITEM.sub("", text)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return _ITEM.sub("", text)
    return " ".join(shlex.quote(item) if item.startswith("{") else item for item in items)
