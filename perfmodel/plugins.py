"""Classes with one file each, found by name: KV methods, draft kinds and draft-length policies."""

import os
from collections.abc import Iterable
from importlib import import_module
from typing import TypeVar

from perfmodel.errors import InputError

Base = TypeVar("Base")


def names_in(folders: Iterable[str]) -> tuple[str, ...]:
    """Names of the files of a package (its ``__path__``) without the base's, sorted. It imports none."""
    files = {
        name.partition(".")[0] for folder in folders for name in os.listdir(folder) if name.endswith(".py")
    }
    return tuple(sorted(files - {"__init__", "base"}))


def class_in(module: str, base: type[Base]) -> type[Base]:
    """The only subclass of `base` in a module. Raises InputError if there is none or more than one, or if it
    is decorated as a dataclass, which the base class makes of it.
    """
    try:
        values = vars(import_module(module)).values()
    except TypeError as error:
        raise InputError(f"{module}: must be a class without @dataclass: {error}") from error
    found = [v for v in values if isinstance(v, type) and issubclass(v, base) and v.__module__ == module]
    if len(found) != 1:
        raise InputError(f"{module}: must define one subclass of {base.__name__}, given {len(found)}")
    return found[0]
