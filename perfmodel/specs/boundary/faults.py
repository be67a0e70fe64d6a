"""Finds the fault in a mapping that msgspec refused. The fault has a key, the allowed values, and the given
value.

msgspec's path does not contain the keys of dictionaries, and its message does not contain the allowed
words. This module therefore converts each part of the mapping separately, and looks for the first
part that msgspec refuses.
"""

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct, convert

from perfmodel.errors import shortened
from perfmodel.specs.boundary.frozen import annotations, defaults

Place = tuple[Any, ...]
MAX_SHOWN = 10**40
"""Largest whole number that a refusal prints."""
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
    "date": "a date",
    "datetime": "a date with a time",
}
"""Plain words for msgspec's name of each type."""


def find_fault(type_: Any, value: Any, place: Place = ()) -> tuple[Place, str]:
    """The path of keys to the first fault in a refused value, and a message with the allowed values.

    Unknown keys are reported before missing keys, because an unknown key is often a misspelling of a
    missing one.
    """
    inside = _without_limits(type_)
    allowed: dict[str, Any] = {}
    if isinstance(value, dict) and isinstance(inside, type) and issubclass(inside, Struct):
        allowed = annotations(inside)
        forbidden = inside.__struct_config__.forbid_unknown_fields
        for key in value:
            if forbidden and key not in allowed:
                keys = f"allowed keys: {', '.join(allowed)}"
                return (*place, key), f"must not be given ({keys})"
    for key, inner_type, inner in _parts(inside, value):
        if _refusal(inner_type, inner):
            return find_fault(inner_type, inner, (*place, key))
    if allowed and (missing := [key for key in required(inside) if key not in value]):
        return (*place, missing[0]), "must be given, and it is missing"
    if (error := _refusal(type_, value)) and error.__cause__:
        own = re.fullmatch(r"(\w+(?:\.\w+)*): (.*)", str(error), re.DOTALL)  # raised by a `__post_init__`
        if own:
            return ((*place, own[1]), own[2])
        return (place, str(error))
    return place, f"{_allowed(inside, str(error))}, given {_shown(value)}"


def required(spec: Any) -> tuple[str, ...]:
    """The keys that a mapping must have to be read as `spec`. The result is empty if `spec` is not a
    structure.
    """
    if not (isinstance(spec, type) and issubclass(spec, Struct)):
        return ()
    return tuple(key for key in annotations(spec) if key not in defaults(spec))


def _parts(type_: Any, value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields the key, type and value of each part. A key of a dictionary comes before its value."""
    arguments = get_args(type_)
    if isinstance(value, dict):
        if get_origin(type_) is dict:
            for key, inner in value.items():
                yield key, arguments[0], key if arguments[0] is not int else _whole(key)
                yield key, arguments[1], inner
        elif isinstance(type_, type) and issubclass(type_, Struct):
            yield from ((key, of, value[key]) for key, of in annotations(type_).items() if key in value)
    elif isinstance(value, list | tuple) and get_origin(type_) in (tuple, list):
        repeated = arguments[1:] in ((), (...,))
        yield from zip(
            range(len(value)), arguments[:1] * len(value) if repeated else arguments, value, strict=False
        )


def _whole(key: Any) -> Any:
    """A key of a JSON mapping as the whole number that it spells."""
    if isinstance(key, str) and re.fullmatch(r"-?\d{1,20}", key):
        return int(key)
    return key


def _without_limits(type_: Any) -> Any:
    """A type without limits and without null."""
    if get_origin(type_) is Annotated:
        return _without_limits(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):
        others = [one for one in get_args(type_) if one is not type(None)]
        return _without_limits(others[0]) if len(others) == 1 else type_
    return type_


def _refusal(type_: Any, value: Any) -> Exception | None:
    try:
        convert(value, type_, str_keys=True)
    except (ValueError, OverflowError) as error:
        return error
    return None


def _allowed(type_: Any, message: str) -> str:
    """The allowed values in plain words."""
    if get_origin(type_) is Literal:
        words = [str(word) for word in get_args(type_)]
        if len(words) > 3:
            return f"must be one of {', '.join(words)}"
        return f"must be {' or '.join(words)}"
    if not (expected := re.fullmatch(r"Expected `([\w |]+)`(.*?)(, got .*)?", message)):
        return f"must be a valid {getattr(type_, '__name__', 'value')}"
    types = [_WORDS.get(word, word) for word in expected[1].split(" | ") if word != "null"]
    return f"must be {' or '.join(types)}{expected[2]}"


def _shown(value: Any) -> str:
    """The given value, if it is short and plain."""
    plain = isinstance(value, str | float | bool | None) or (
        isinstance(value, int) and abs(value) < MAX_SHOWN
    )
    return shortened(repr(value)) if plain else type(value).__name__
