"""Finds classes by name: KV methods, draft kinds and draft-length policies. Each class has its own file."""

import os
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import TypeVar

from perfmodel.errors import InputError, shortened

Base = TypeVar("Base")


def names_in(folders: Iterable[str]) -> tuple[str, ...]:
    """The names of the modules in a package, sorted. The module of the base class is left out. No module is
    imported.

    - folders: the package's ``__path__``.
    """
    files = {
        name.partition(".")[0] for folder in folders for name in os.listdir(folder) if name.endswith(".py")
    }
    return tuple(sorted(files - {"__init__", "base"}))


def class_in(module: str, base: type[Base]) -> type[Base]:
    """The only subclass of `base` in a module.

    Raises InputError if the module has no subclass or more than one. It also raises if the subclass is
    decorated as a dataclass, because the base class already turns it into one.
    """
    try:
        values = vars(import_module(module)).values()
    except TypeError as error:
        raise InputError(f"{module}: must be a class without @dataclass: {error}") from error
    classes = [v for v in values if isinstance(v, type) and issubclass(v, base) and v.__module__ == module]
    if len(classes) != 1:
        raise InputError(f"{module}: must define one subclass of {base.__name__}, given {len(classes)}")
    return classes[0]


def options_of(texts: Iterable[str], known: Collection[str], where: str, example: str) -> dict[str, str]:
    """Reads options that are spelled ``name=value`` into a dictionary from name to value.

    - where: the flag and the class, for error messages.

    Raises InputError for an option that is not in `known` or that is given twice.
    """
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            takes = f"{', '.join(known)}, as in {example}" if known else "none"
            raise InputError(f"{where} has no option {shortened(text.strip())!r}; it takes {takes}")
        if name in options:
            raise InputError(f"{where}: {name} is given twice")
        options[name] = value.strip()
    return options
