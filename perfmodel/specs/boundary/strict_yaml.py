"""YAML as users may give it: plain keys, each once, no aliases, no tags, not deep; scalars as in YAML 1.2.

Values are built from libyaml's events in one pass, in half of the time that PyYAML's nodes and constructors
take. A date stays text, which a typed field reads.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 50
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
_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)


def read_yaml(text: str) -> Any:
    """The value of a text; None of an empty one. Raises ValueError for what is not such YAML."""
    try:
        events = iter(yaml.parse(text, _LOADER))
        next(events)  # begins the stream
        if isinstance(next(events), yaml.StreamEndEvent):
            return None
        found = _value(next(events), events, 0)
        next(events)  # ends the document
        if not isinstance(next(events), yaml.StreamEndEvent):
            raise ValueError("must be one document")
        return found
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    """The value that an event begins, whose other events are taken."""
    if isinstance(event, yaml.AliasEvent):
        raise ValueError("YAML aliases (*name) are not allowed")
    line = event.start_mark.line + 1
    if event.tag is not None:
        raise ValueError(f"line {line}: tags ({event.tag}) are not allowed")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event.value) if event.implicit[0] else event.value
    if depth == MAX_DEPTH:
        raise ValueError(f"line {line}: nested deeper than {MAX_DEPTH}")
    if isinstance(event, yaml.SequenceStartEvent):
        values = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            values.append(_value(inner, events, depth + 1))
        return values
    table: dict[Any, Any] = {}
    while not isinstance(inner := next(events), yaml.MappingEndEvent):
        line, key = inner.start_mark.line + 1, _value(inner, events, depth + 1)
        if not isinstance(key, str | int | float):
            raise ValueError(f"line {line}: keys must be plain text or numbers")
        if key in table:
            raise ValueError(f"line {line}: key {key!r} is given twice")
        table[key] = _value(next(events), events, depth + 1)
    return table


def _scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        if _WHOLE.fullmatch(text):
            return int(text, 0 if text[:2] in ("0x", "0o") else 10)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text
