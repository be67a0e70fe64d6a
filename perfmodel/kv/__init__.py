"""KV methods of a draft. Each file in this folder has one method and is found by its name.

To add a method, add a file ``<name>.py`` with one `KVMethod` subclass. There is no list to update. A method's
module is imported on first use.
"""

import dataclasses
import re
from functools import cache
from typing import Any, get_type_hints

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv.base import NOTHING, KVLayout, KVMethod, Step
from perfmodel.parse import amount
from perfmodel.plugins import class_in, names_in, options_of

__all__ = [
    "NOTHING",
    "KVLayout",
    "KVMethod",
    "Step",
    "method",
    "methods",
    "names",
    "parse_kv",
    "sparse_method",
]


@cache
def names() -> tuple[str, ...]:
    """Names of all methods, sorted. This imports no method."""
    return names_in(__path__)


@cache
def method(name: str) -> type[KVMethod]:
    """The class of the method with this exact name, which is one of `names`."""
    return class_in(f"{__name__}.{name}", KVMethod)


def methods() -> dict[str, type[KVMethod]]:
    """The class of each method by its name, sorted by name. This imports all methods."""
    return {name: method(name) for name in names()}


def parse_kv(text: str, flag: str = "--draft-kv") -> KVMethod:
    """Parses ``METHOD[:BUDGET][,option=value...]``, such as ``snapkv:2k`` or ``quest:1024,page=16``.

    The options are the method's dataclass fields. A count may end in ``k`` (1024) or ``m`` (1048576). Raises
    InputError for an unknown method or option, a missing budget, and a value out of range.
    """
    head, *options = text.strip().lower().split(",")
    name, colon, budget = head.partition(":")
    resolved = _known(name.strip())
    if resolved is None:
        raise unknown_name(flag, "KV method", name.strip(), names())
    fields: dict[str, Any] = {field.name: field for field in dataclasses.fields(resolved)}  # type: ignore[arg-type]
    where = f"{flag}: {resolved.name}"
    if colon:
        options.insert(0, f"budget={budget}")
    given = options_of(options, fields, where, resolved.example)
    for key, field in fields.items():
        if key not in given and field.default is dataclasses.MISSING:
            raise InputError(f"{where} needs {key}, as in {resolved.example}")
    types = _types(resolved.name)
    values = {key: _value(value, types[key], where, key) for key, value in given.items()}
    try:
        return resolved(**values)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


@cache
def _types(name: str) -> dict[str, Any]:
    """The type of each field of the method with this exact name."""
    return get_type_hints(method(name))


def sparse_method(word: str) -> type[KVMethod] | None:
    """The class of the method with this name or alias. The result is None for an unknown word, and for the
    method `full`.
    """
    known = _known(word.strip().lower())
    return None if known is None or known.reads_all else known


def _known(name: str) -> type[KVMethod] | None:
    """The class of the method with this name or alias. The result is None for an unknown word."""
    plain = re.sub(r"[-_\s]", "", name)
    if plain in names():
        return method(plain)
    return next((known for known in methods().values() if plain in known.aliases), None)


def _value(text: str, option_type: Any, where: str, key: str) -> bool | int | float:
    """Converts an option's text to its field's type: bool, int, float, or one of these or None."""
    if option_type is bool:
        if text not in ("true", "false"):
            raise refuse(where, key, "true or false", text)
        return text == "true"
    if (number := amount(text)) is None:
        raise refuse(where, key, "a positive number such as 512 or 2k", text)
    if option_type in (int, int | None):
        if number != int(number):
            raise refuse(where, key, "a whole number", text)
        return int(number)
    return float(number)
