"""Questions: frozen dataclasses whose fields are declared arguments."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache, wraps
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from perfmodel.answers.declaration.arguments import Argument, declared_by, flag, within
from perfmodel.answers.readers import Read
from perfmodel.errors import InputError, in_names, unknown_name


def argument(
    help: str = "",
    metavar: str = "",
    also: str = "",
    read: Read | None = None,
    *,
    default: Any = MISSING,
    shown: str | None = None,
    **more: Any,
) -> Any:
    """Declares a field of a question.

    - default: the default value of the field.
    - shown: the default as ``--help`` shows it.

    All other parameters are fields of `Argument`. Without `help`, the annotation of the field must contain
    the `Argument`. Every default of a question is declared with this function.
    """
    if not help:
        return field(default=default)
    return field(
        default=default, metadata={"argument": Argument(help, metavar, also, read, default=shown, **more)}
    )


def same_as(asked: type, name: str) -> Any:
    """Declares a field with the argument and the default of the field `name` in another question."""
    known = {each.name: each for each in fields(asked)}[name]
    return field(default=known.default, metadata=known.metadata)


T = TypeVar("T")


@dataclass_transform(field_specifiers=(argument, same_as))
def question(cls: type[T]) -> type[T]:
    """Turns a class into a frozen dataclass. `Question.read` converts the values that are given for its
    fields.

    The new `__init__` accepts the values as given, reads them, and passes the value of every field by name
    to the `__init__` of the dataclass. `__post_init__` therefore sees the final values.
    """
    frozen: Any = dataclass(frozen=True)(cls)
    assign = frozen.__init__

    @in_names
    @wraps(assign)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        assign(self, **self.read(args, given))

    frozen.__init__ = __init__
    return frozen


@dataclass_transform(field_specifiers=(argument, same_as))
def options(cls: type[T]) -> type[T]:
    """Declares a class with the fields that several questions share. The class gets no generated methods,
    because only its subclasses have instances.
    """
    return dataclass(frozen=True, init=False, repr=False, eq=False)(cls)


def _arguments(cls: Any) -> dict[str, Argument]:
    """The arguments of a question in the order of help. Positional arguments come first, then the arguments
    of its own class, and then the arguments of its base classes.
    """
    hints = get_type_hints(cls, include_extras=True)
    classes = [vars(parent).get("__annotations__", {}) for parent in cls.__mro__]

    def place(field: Field[Any]) -> int:
        """The sort key of a field: 0 if it is positional, otherwise the position of its class among the base
        classes, counted from 1. If several classes declare a field, the most derived one counts.
        """
        own_class = next(i for i, names in enumerate(classes, 1) if field.name in names)
        return own_class if field.kw_only else 0

    declared = {}
    for one in sorted(fields(cls), key=place):
        argument = declared_by(one.name, hints[one.name], one.metadata.get("argument"))
        if argument is not None:
            fallback = None if one.default is MISSING else argument.value(one.default, one.name)
            declared[one.name] = replace(argument, fallback=fallback)
    return declared


arguments: Callable[[Any], dict[str, Argument]] = cache(_arguments)
"""Maps each field name of a question's class to its argument. Positional arguments come first, and those of
all questions last.
"""


@dataclass(frozen=True, slots=True)
class _Form:
    """The names of the fields of a question.

    - known: all fields.
    - placed: the fields that may be given by position.
    - needed: the fields without a default.
    """

    known: dict[str, None]
    placed: tuple[str, ...]
    needed: tuple[str, ...]


def _form_of(cls: Any) -> _Form:
    known = fields(cls)
    return _Form(
        dict.fromkeys(f.name for f in known),
        tuple(f.name for f in known if not f.kw_only),
        tuple(f.name for f in known if f.default is MISSING),
    )


_form: Callable[[Any], _Form] = cache(_form_of)


@question
class Question:
    """Base class of all questions. When a question is made, the values of its fields are read and checked. A
    wrong value raises InputError.

    The steps are `read`, `settled`, the rules `needs` and `without` of each `Argument`, and `check`. For the
    rules, an argument is stated if its value after `settled` differs from its default. A default that a user
    gives explicitly is therefore not stated. The rules of an argument apply only if it is stated.
    """

    @classmethod
    def read(cls, args: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
        """Reads the positional and named values that were given, and returns the value of each field by name.

        Raises InputError for an unknown argument, a missing argument, or a value that cannot be read, and
        TypeError for a wrong number of positional values.
        """
        form = _form(cls)
        placed = form.placed
        if len(args) > len(placed) or given.keys() & placed[: len(args)]:
            raise TypeError(f"{cls.__name__}() takes {', '.join(placed)} by position or by name, each once")
        for name in given.keys() - form.known:
            raise unknown_name(f"{cls.__name__}()", "argument", name, form.known)
        values = dict(zip(placed, args, strict=False)) | given
        for name in form.needed:
            if name not in values:
                raise InputError(f"{flag(name)}: must be given")
        read = {
            name: argument.value(values[name], name) if name in values else argument.fallback
            for name, argument in arguments(cls).items()
        }
        return cls.settled(read)

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values after reading. A subclass may fill in values that follow from others. Raises InputError
        if values contradict each other.
        """
        return values

    @in_names
    def __post_init__(self) -> None:
        known = arguments(type(self))
        in_order = [name for name, argument in known.items() if getattr(self, name) != argument.fallback]
        stated = {*in_order}
        for name in in_order:
            if known[name].needs:
                _check_needs(name, known, stated)
            if known[name].without:
                _check_without(name, known, stated)
        self.check()

    def check(self) -> None:
        """Raises InputError for a question that has no answer."""

    def within(self, name: str, low: float, high: float, allowed: str) -> None:
        """Raises InputError if the value of the field `name` is below `low` or above `high`. This method is
        for limits that depend on other fields. None is allowed.
        """
        within(getattr(self, name), flag(name), low, high, allowed)

    def __dir__(self) -> list[str]:
        return [*arguments(type(self)), "as_dict"]

    def as_dict(self) -> dict[str, Any]:
        """The values of all arguments by name, with defaults filled in."""
        return {name: getattr(self, name) for name in arguments(type(self))}


def _check_needs(name: str, known: dict[str, Argument], stated: set[str]) -> None:
    """Raises InputError if no argument is stated that the argument `name` needs.

    - known: all arguments of the question.
    - stated: the arguments whose values differ from their defaults.
    """
    argument = known[name]
    if not stated & {*argument.needs}:
        raise InputError(f"{argument.flag}: needs {_either(known, argument.needs)}{_reason(argument)}")


def _check_without(name: str, known: dict[str, Argument], stated: set[str]) -> None:
    """Raises InputError if an argument is stated that excludes the argument `name`. The parameters are those
    of `_check_needs`.
    """
    argument = known[name]
    if stated & {*argument.without} - {name}:
        others = [other for other in argument.without if other in known and other != name]
        raise InputError(
            f"{argument.flag}: must be left out with {_either(known, others)}{_reason(argument)}"
        )


def _reason(argument: Argument) -> str:
    """The reason for the rules of an argument, as the end of a message."""
    return f", {argument.why}" if argument.why else ""


def _either(known: dict[str, Argument], names: Sequence[str]) -> str:
    """The flags in words: ``--a, --b or --c``."""
    *others, last = (known[name].flag for name in names)
    return f"{', '.join(others)} or {last}" if others else last
