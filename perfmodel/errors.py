"""The only exception that a user can cause, and functions that build its one-line message."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_ARGUMENT = re.compile(r"`[^`]*`|(?<!\w)'[^']*'|\"[^\"]*\"|(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
"""Quoted text, or a flag. Only a flag has a group."""
_FLAG = re.compile(r"^--([a-z][a-z0-9-]*)")
"""A flag at the start of a message."""

LONGEST = 500
"""Largest number of characters of an error message."""
SHOWN = 40
"""Largest number of characters that an error message quotes of a given value or of a key of a file."""
SHOWN_OF_FLAG = 80
"""Largest number of characters that an error message quotes of the value of a flag."""
MOST_LISTED = 32
"""Largest number of names that an error message lists before it gives the number of the others."""
_IN_FILE = ContextVar("whether the contents of a file are checked", default=False)


class InputError(ValueError):
    """The exception for wrong input. Its message is one line with the error, its place and the allowed
    values.

    A message names arguments as flags (``--draft-kv``). The command line prints the message in this form
    (`as_flags`) and exits with status 2. Messages of errors that pass through `in_names` have Python's
    argument names (``draft_kv``). Every other exception is a bug. A message has no line breaks and no control
    characters, even if it quotes a file or an argument.
    """

    def __init__(self, message: str) -> None:
        text = one_line(message)
        super().__init__(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")
        self.named = False
        """Whether the message has Python's argument names (see `in_names`)."""
        self.of_file: str | None = None
        """The file whose contents the message may quote."""

    def __str__(self) -> str:
        return as_names(self.as_flags) if self.named else self.as_flags

    @property
    def as_flags(self) -> str:
        """The message with arguments in the spelling of the command line."""
        return super().__str__()


class UnreadableError(InputError):
    """The exception for a file that is missing or must not be read. The message names the file, but quotes
    none of its contents.
    """


@contextmanager
def about_file(path: object) -> Iterator[None]:
    """Adds the name of a file to every error about its contents, and marks such an error
    (`InputError.of_file`).

    A flag at the start of the message is changed to a key of the file, because the fault is in the file.
    Inside this context, a message quotes at most `SHOWN` characters of a value.
    """
    token = _IN_FILE.set(True)
    try:
        yield
    except InputError as error:
        message = error.as_flags
        is_named = message.startswith(f"{path}: ")
        if isinstance(error, UnreadableError) and is_named:
            raise
        if error.of_file is not None or is_named:
            error.of_file = error.of_file or str(path)
            raise
        about = InputError(f"{path}: {_FLAG.sub(lambda flag: flag[1].replace('-', '_'), message)}")
        about.of_file = str(path)
        raise about from None
    finally:
        _IN_FILE.reset(token)


def one_line(text: str) -> str:
    """The text without line breaks and control characters."""
    if not text.isprintable():
        text = "".join([c if c.isprintable() else " " for c in text])
    return " ".join(text.split())


def as_names(text: str) -> str:
    """Changes flags in a text to Python's argument names: ``--draft-kv`` becomes ``draft_kv``. Quoted text is
    unchanged.
    """
    return _ARGUMENT.sub(lambda m: m[1].replace("-", "_") if m[1] else m[0], text)


def in_names(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function of the Python interface so that its error messages have Python's argument names."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except InputError as error:
            error.named = True
            raise

    return called


def refuse(where: str, key: str | None, allowed: str, given: object) -> InputError:
    """Returns the error for a wrong value. Its message has the file or flag, the key, the allowed values and
    the given value.
    """
    place = f"{where}: {key}" if key else where
    most = SHOWN_OF_FLAG if where.startswith("--") and not _IN_FILE.get() else SHOWN
    text = repr(shortened(given, most)) if isinstance(given, str) else shortened(str(given), most)
    return InputError(" ".join(f"{place}: must be {allowed}, given {text}".split()))


def shortened(text: str, most: int = SHOWN) -> str:
    """Shortens a text to at most `most` characters, so that an error message can quote it."""
    return text if len(text) <= most else text[: most - 3] + "..."


def not_installed(who: str, module: str, extra: str) -> InputError:
    """Returns the error for a missing package. Its message has the command that installs the package from a
    clone, because perfmodel is not on PyPI.
    """
    return InputError(f"{who}: needs {module}, which is not installed: in a clone, pip install '.[{extra}]'")


def library(name: str, who: str = "to_frame", extra: str = "notebooks") -> Any:
    """Imports a library by its name. If it is not installed, raises InputError with the command that installs
    it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise not_installed(who, name, extra) from None


def unknown_name(
    where: str, noun: str, given: str, known: Iterable[str], aliases: Iterable[str] = (), otherwise: str = ""
) -> InputError:
    """Returns the error for an unknown name. Its message has the most similar names, or else the known names.
    `aliases` may be suggested, but are never listed.

    - otherwise: a sentence that says how to ask about other names.
    """
    import difflib  # imported late, because no answer needs this module

    names = sorted(known)
    pools = (names, sorted(aliases))
    near = next(filter(None, (difflib.get_close_matches(given.lower(), p, cutoff=0.4) for p in pools)), [])
    if len(names) <= MOST_LISTED:
        listed = names
    else:
        listed = [*names[:MOST_LISTED], f"... ({len(names)} in all)"]
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(listed)}"
    hint += f" {otherwise}" if otherwise else ""
    most = SHOWN if _IN_FILE.get() else SHOWN_OF_FLAG
    return InputError(f"{where}: no {noun} named {shortened(given, most)!r}; {hint}")
