"""The one error a user can cause, and the sentence it is told in."""

import difflib
from collections.abc import Iterable

MOST_LISTED = 32
"""Names that a refusal lists before it says how many more there are."""


class InputError(ValueError):
    """What the user gave is wrong; the message is one line that says what, where and what is allowed.

    The command line prints it and exits with 2. Everything else that is raised is a bug. Whatever of the message was
    read from a file or an argument, it is one line without control characters.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """The text without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def refuse(where: str, key: str | None, allowed: str, given: object) -> InputError:
    """Build the one sentence: which file or flag, which key, what is allowed, what was given."""
    place = f"{where}: {key}" if key else where
    text = repr(given) if isinstance(given, str) else str(given)
    if len(text) > 80:
        text = text[:77] + "..."
    return InputError(" ".join(f"{place}: must be {allowed}, given {text}".split()))


def unknown_name(where: str, noun: str, given: str, known: Iterable[str], aliases: Iterable[str] = ()) -> InputError:
    """Refuse a name that is not in the list, with the nearest ones; `aliases` are suggested but never listed."""
    names = sorted(known)
    pools = (names, sorted(aliases))
    near = next(filter(None, (difflib.get_close_matches(given.lower(), p, n=3, cutoff=0.4) for p in pools)), [])
    listed = names if len(names) <= MOST_LISTED else [*names[:MOST_LISTED], f"... ({len(names)} in all)"]
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(listed)}"
    shown = given if len(given) <= 80 else given[:77] + "..."
    return InputError(f"{where}: no {noun} named {shown!r}; {hint}")
