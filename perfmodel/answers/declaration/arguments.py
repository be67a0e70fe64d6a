"""The declaration of one argument of a question: its help, its limits, and how its value is read."""

from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from perfmodel.answers.readers import READERS, Parsed, Read, count, counts, whole
from perfmodel.errors import refuse, unknown_name
from perfmodel.parse import MAX_VALUES, items, parse_text

TINY = 5e-324
"""The smallest floating-point number above 0."""
HUGE = 1.7976931348623157e308
"""The largest finite floating-point number."""
MAX_LISTED = 1000
"""Largest number of values of an argument. Answers for this many values take about ten seconds."""
POSITIVE = (TINY, HUGE)
"""Limits of an argument that must be above 0: the smallest and the largest allowed number."""
SHARE = (0.0, 1.0)
"""Limits of a share: the smallest and the largest allowed number."""


@dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """The declaration of one argument of a question.

    - help: its text in ``--help``.
    - metavar: the form of its value in ``--help``.
    - also: additional flags.
    - read: the function that converts a given value, or raises InputError; without it, the annotation selects
      the function (`READERS`).
    - many: the function that replaces `read` in commands that accept lists.
    - repeated: whether the flag may be given several times.
    - default: the default as ``--help`` shows it.
    - optional: whether None is allowed.
    - limits, choices: the allowed values; choices also become the metavar.
    - flag: its name on the command line; by default, ``--draft-kv`` for ``draft_kv``.
    - place: whether it is positional. Error messages then name it by its metavar and not by a flag.
    - group: its heading in ``--help``.
    - fallback: the default as a Python value.
    - listed: the command that lists the possible names, for completion in a shell.
    - needs: other arguments of the same question; at least one of them must be stated too (`Question` says
      when an argument is stated).
    - without: arguments that must not be stated too. Several arguments may share one list, so the argument
      itself and names that the question lacks are skipped.
    - why: the reason for `needs` or `without`, as a clause.
    - most: the largest number of values.
    """

    help: str
    metavar: str = ""
    also: str = ""
    read: Read | None = None
    many: Read | None = None
    repeated: bool = False
    default: str | None = None
    optional: bool = False
    limits: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    flag: str = ""
    place: bool = False
    group: str = "Question"
    fallback: Any = None
    listed: str = ""
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    why: str = ""
    most: int = MAX_LISTED

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        low, high = self.limits or POSITIVE
        noun = "whole number" if self.read in (count, counts, whole) else "number"
        if high == HUGE:
            noun = f"finite {noun}"
        if low != TINY:
            return f"a {noun} from {low:g} to {high if high % 1 else int(high)}"
        ends = "above 0" if high == HUGE else f"above 0 and at most {high:g}"
        return f"a {noun} {ends}"

    def value(self, given: Any, name: str) -> Any:
        """Reads and checks the given value of the parameter `name`. Raises InputError for a wrong value. The
        message begins with the flag.
        """
        if (given is None and self.optional) or (given is not None and given is self.fallback):
            return given
        assert self.read is not None
        value = self.read(given, self.flag)
        if isinstance(value, tuple) and len(value) > self.most:
            raise refuse(self.flag, None, f"at most {self.most} values", len(value))
        if self.limits is not None:
            within(value, self.flag, *self.limits, self.allowed)
        if self.choices and value not in self.choices:
            raise unknown_name(self.flag, name.replace("_", " "), value, self.choices)
        return value

    def __repr__(self) -> str:
        return repr(self.help)


def within(given: Any, shown: str, low: float, high: float, allowed: str) -> None:
    """Raises InputError if a number is below `low` or above `high`.

    - given: one number or several numbers. None is allowed.
    - shown: the flag, for the message.
    """
    for each in items(given):
        if each is not None and not low <= each <= high:
            raise refuse(shown, None, allowed, each)


def listed(alias: Any) -> Argument:
    """A copy of the argument in an annotation that accepts a list of values."""
    (argument,) = get_args(alias)[1:]
    assert isinstance(argument, Argument)
    assert argument.many is not None
    return replace(argument, read=argument.many, most=MAX_VALUES)


def declared_by(name: str, hint: Any, of_field: Argument | None = None) -> Argument | None:
    """The argument of the parameter `name`, from its field (`of_field`) or its annotation (`hint`). The
    result is None if neither declares an argument.
    """
    declared = of_field
    if declared is None:
        notes = getattr(hint, "__metadata__", ())
        declared = next((note for note in notes if isinstance(note, Argument)), None)
    if declared is None:
        return None
    type_ = type_of_field(hint)
    is_parsed = get_origin(_without_argument(hint)) is Parsed
    types = get_args(type_) if isinstance(type_, UnionType) else (type_,)
    without_none = tuple(each for each in types if each is not NoneType)
    read = declared.read or READERS.get(without_none, parse_text)
    is_list = without_none == (tuple[str, ...],) and not is_parsed
    typed = declared.metavar if declared.place else declared.flag or flag(name)
    return replace(
        declared, flag=typed, read=read, repeated=declared.repeated or is_list, optional=NoneType in types
    )


def flag(name: str) -> str:
    """The flag of a parameter on the command line and in messages: ``draft_kv`` becomes ``--draft-kv``."""
    return "--" + name.replace("_", "-")


def type_of_field(annotation: Any) -> Any:
    """The type of the value that a field stores, such as ``int`` for an argument that also accepts the text
    ``32k``.
    """
    type_ = _without_argument(annotation)
    return get_args(type_)[0] if get_origin(type_) is Parsed else type_


def _without_argument(annotation: Any) -> Any:
    """An annotation without its argument."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
