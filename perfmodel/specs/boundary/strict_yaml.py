"""Reads a subset of YAML. Keys are plain and not repeated, aliases and tags are not allowed, and the depth is
limited. Scalars follow YAML 1.2.

A single loop builds the values from libyaml's events. This loop takes less than half of the time that
PyYAML's nodes and constructors take. A date remains text, which a typed field converts.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

import yaml

from perfmodel.errors import one_line

MAX_DEPTH = 50
"""Largest number of nested mappings and lists."""
_NODE: Any = yaml.NodeEvent
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_WHOLE = re.compile(r"[-+]?\d+|0x[\da-fA-F]+|0o[0-7]+", re.ASCII)
"""A whole number in YAML's core schema, which may be hexadecimal or octal."""
_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
"""A number with a fraction or an exponent in YAML's core schema."""


def read_yaml(text: str) -> Any:
    """The value of a YAML text. Each string in the text is on one line. The result is None for an empty text.

    Raises ValueError for YAML outside this subset. The message gives the line but quotes nothing, because the
    text may come from a file of another kind.
    """
    try:
        loader = _LOADER(text)
        try:
            return _document(iter(loader.get_event, None))  # yaml.parse would add a call for each event
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:  # the text of the error may quote lines of the file
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _document(events: Iterable[Any]) -> Any:
    """The value of the only document, in a loop without recursion, because a call for each event takes
    longer.
    """
    values = list[Any]()
    lines = list[int]()
    """Values of the innermost open collection (keys and values in turn for a mapping), and the line of
    each.
    """
    outer: list[tuple[list[Any], list[int]]] = []
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            inner = values if isinstance(event, yaml.SequenceEndEvent) else _mapping(values, lines)
            values, lines = outer.pop()
            values.append(inner)
            continue
        if not isinstance(event, _NODE):
            continue
        lines.append(event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("YAML aliases (*name) are not allowed")
        if event.tag is not None:
            raise ValueError(f"line {lines[-1]}: tags (!name) are not allowed")
        if not isinstance(event, yaml.ScalarEvent):
            if len(outer) == MAX_DEPTH:
                raise ValueError(f"line {lines[-1]}: nested deeper than {MAX_DEPTH}")
            outer.append((values, lines))
            values = []
            lines = []
        elif event.implicit[0] and event.value in _WORDS:
            values.append(_WORDS[event.value])
        else:
            text = event.value
            value: int | float | str = text
            if event.implicit[0] and text.isascii() and text.isdecimal() and text[0] != "0":
                value = int(text)  # most numbers are read here, without a function call
            elif event.implicit[0] and text[0] in "+-.0123456789":
                value = _number(text)
            values.append(value if value is not text or text.isprintable() else one_line(text))
    if len(values) > 1:
        raise ValueError("must be one document")
    return values[0] if values else None


def _mapping(values: list[Any], lines: list[int]) -> dict[Any, Any]:
    """Builds a mapping from alternating keys and values.

    - lines: the line of each key and value.
    """
    table: dict[Any, Any] = {}
    for line, key, value in zip(lines[::2], values[::2], values[1::2], strict=True):
        if not isinstance(key, str | int | float):
            raise ValueError(f"line {line}: keys must be plain text or numbers")
        if key in table:
            raise ValueError(f"line {line}: a key is given twice")
        table[key] = value
    return table


def _number(text: str) -> int | float | str:
    """Converts a plain scalar according to YAML 1.2's core schema. Text that only begins like a number
    remains text.
    """
    if _WHOLE.fullmatch(text):
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)
    return float(text) if _NUMBER.fullmatch(text) else text
