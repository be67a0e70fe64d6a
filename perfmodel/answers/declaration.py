"""Declares an argument: its meaning, and how its value is read.

A question is a frozen dataclass (`question`) whose fields are annotated with arguments. `arguments.py` has
those that several questions share; a field of one question only declares its own `argument`. Making a
question reads all given values once, text such as ``"32k"`` or Python's values, so each field has one type.
The command line makes its flags from the same arguments. `asks` turns a function of a question into one of
its arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache, wraps
from inspect import Signature, getdoc, signature
from types import NoneType, UnionType
from typing import (
    Any,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from perfmodel.answers.readers import (
    READERS,
    Parsed,
    Read,
    count,
    counts,
    whole,
)
from perfmodel.errors import InputError, as_names, in_names, refuse, unknown_name
from perfmodel.parse import MAX_VALUES, items, parse_text

TINY = 5e-324
HUGE = 1.7976931348623157e308
MAX_LISTED = 1000
"""Most values of an argument: some ten seconds of work."""
POSITIVE = (TINY, HUGE)
"""Limits of an argument above 0: the smallest and the largest number, both allowed."""
SHARE = (0.0, 1.0)
"""Limits of a share, both allowed."""


@dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One argument: `help`, the form of its value on the command line, and flags in addition to the one of
    its name.

    read: converts the given value, or refuses it; by default by the annotation (`READERS`). many: the same
    for commands that take lists. repeated: a flag that may be given several times. default: the default as
    help shows it. optional: None is a value. limits, choices: the allowed values (choices are also its
    metavar). flag: its spelling on the command line, by default ``--draft-kv`` for ``draft_kv``; a positional
    argument (`place`) has its metavar instead. group: its heading in ``--help``. fallback: the default after
    reading. listed: the verb that lists its names, for completion in a shell. needs: other arguments, one of
    which must be given with this one. without: arguments that must not be given with this one. why: the
    reason, as a clause. most: the number of values that it may have.
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
        """The limits in words."""
        low, high = self.limits or POSITIVE
        noun = "whole number" if self.read in (count, counts, whole) else "number"
        if high == HUGE:
            noun = f"finite {noun}"
        if low != TINY:
            return f"a {noun} from {low:g} to {high if high % 1 else int(high)}"
        ends = "above 0" if high == HUGE else f"above 0 and at most {high:g}"
        return f"a {noun} {ends}"

    def value(self, given: Any, name: str) -> Any:
        """Reads and checks the given value. Raises InputError that names the flag of the parameter `name`."""
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
    """Refuse (InputError) a number, or one of several, outside low ... high, both included. None passes."""
    for each in items(given):
        if each is not None and not low <= each <= high:
            raise refuse(shown, None, allowed, each)


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
    """A field of a question: its `Argument` with further settings, its default, and the form in which help
    shows it.

    Without `help`, the argument is the one in its annotation. Every default of a question is written so.
    """
    if not help:
        return field(default=default)
    return field(
        default=default, metadata={"argument": Argument(help, metavar, also, read, default=shown, **more)}
    )


def same_as(asked: type, name: str) -> Any:
    """The field of another question, with its argument and default."""
    known = {each.name: each for each in fields(asked)}[name]
    return field(default=known.default, metadata=known.metadata)


T = TypeVar("T")


@dataclass_transform(field_specifiers=(argument, same_as))
def question(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass whose fields get the values that `Question.read` makes of the given ones."""
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
    """Makes the fields that several questions share. None is made of them alone, so it has no methods."""
    return dataclass(frozen=True, init=False, repr=False, eq=False)(cls)


def listed(alias: Any) -> Argument:
    """The argument in the annotation, changed to take a list."""
    (argument,) = get_args(alias)[1:]
    assert isinstance(argument, Argument)
    assert argument.many is not None
    return replace(argument, read=argument.many, most=MAX_VALUES)


def _arguments(cls: Any) -> dict[str, Argument]:
    """The arguments of a question in the order of help: positional ones, its own, those of its base
    classes.
    """
    hints = get_type_hints(cls, include_extras=True)
    classes = [vars(parent).get("__annotations__", {}) for parent in cls.__mro__]

    def place(field: Field[Any]) -> int:
        own_class = next(i for i, names in enumerate(classes, 1) if field.name in names)
        return own_class if field.kw_only else 0

    declared = {}
    for one in sorted(fields(cls), key=place):
        argument = declared_by(one.name, hints[one.name], one.metadata.get("argument"))
        if argument is not None:
            fallback = None if one.default is MISSING else argument.value(one.default, one.name)
            declared[one.name] = replace(argument, fallback=fallback)
    return declared


def declared_by(name: str, hint: Any, of_field: Argument | None = None) -> Argument | None:
    """A parameter's argument, of its field or else in its annotation (`hint`); None without one."""
    declared = of_field
    if declared is None:
        notes = getattr(hint, "__metadata__", ())
        declared = next((note for note in notes if isinstance(note, Argument)), None)
    if declared is None:
        return None
    type_ = _type_of_field(hint)
    is_parsed = get_origin(_without_argument(hint)) is Parsed
    types = get_args(type_) if isinstance(type_, UnionType) else (type_,)
    without_none = tuple(each for each in types if each is not NoneType)
    read = declared.read or READERS.get(without_none, parse_text)
    is_list = without_none == (tuple[str, ...],) and not is_parsed
    typed = declared.metavar if declared.place else declared.flag or flag(name)
    return replace(
        declared, flag=typed, read=read, repeated=declared.repeated or is_list, optional=NoneType in types
    )


arguments: Callable[[Any], dict[str, Argument]] = cache(_arguments)
"""Maps the names of a question's class to its arguments: positional ones first, those of all questions last.
"""


def flag(name: str) -> str:
    """The flag of a parameter in messages and on the command line: ``draft_kv`` becomes ``--draft-kv``."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class _Form:
    """The fields of a question: all, those that are given by position, and those that must be given."""

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
    """A question. Making one reads its fields and checks their limits (InputError)."""

    @classmethod
    def read(cls, args: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
        """Field -> value, from positional and named values.

        Raises InputError for an unknown argument, a missing one, and a value that cannot be read.
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
        """The values after reading, with those that follow from other values. Raises InputError."""
        return values

    @in_names
    def __post_init__(self) -> None:
        known = arguments(type(self))
        stated = [name for name, argument in known.items() if getattr(self, name) != argument.fallback]
        for name in stated:
            argument = known[name]
            if not argument.needs and not argument.without:
                continue
            why = f", {argument.why}" if argument.why else ""
            if argument.needs and {*argument.needs}.isdisjoint(stated):
                raise InputError(f"{argument.flag}: needs {_either(known, argument.needs)}{why}")
            if not {*argument.without}.difference([name]).isdisjoint(stated):
                others = [other for other in argument.without if other in known and other != name]
                raise InputError(f"{argument.flag}: must be left out with {_either(known, others)}{why}")
        self.check()

    def check(self) -> None:
        """Refuse (InputError) questions that have no answer."""

    def within(self, name: str, low: float, high: float, allowed: str) -> None:
        """Refuse a number outside low ... high, both included, which the rest of the question determines.
        None passes.
        """
        within(getattr(self, name), flag(name), low, high, allowed)

    def __dir__(self) -> list[str]:
        return [*arguments(type(self)), "as_dict"]

    def as_dict(self) -> dict[str, Any]:
        """The question with all defaults, for the answer."""
        return {name: getattr(self, name) for name in arguments(type(self))}


def _either(known: dict[str, Argument], names: Sequence[str]) -> str:
    """The flags in words: ``--a, --b or --c``."""
    *others, last = (known[name].flag for name in names)
    return f"{', '.join(others)} or {last}" if others else last


P = ParamSpec("P")
Q = TypeVar("Q", bound=Question)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Verb(Protocol[P, A_co]):
    """A function that takes a question's arguments, or an existing question with some arguments changed."""

    question: type[Any]
    __name__: str

    @overload
    def __call__(self, question: Question, /, **changes: Any) -> A_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A_co: ...


def asks(question_class: Callable[P, Q]) -> Callable[[Callable[[Q], A]], Verb[P, A]]:
    """Makes a function of a question take that question's arguments. `question` is its class, for the command
    line.
    """
    assert isinstance(question_class, type)

    def decorate(answer: Callable[[Q], A]) -> Verb[P, A]:
        """The answer as a function of values, of a question, or of a question and changes to it."""

        @in_names
        @wraps(answer)
        def verb(*args: Any, **changes: Any) -> A:
            values = changes
            if args and isinstance(args[0], Question):
                question, *more = args
                if more:
                    raise TypeError(f"{answer.__name__}() takes one question, and changes to it by name")
                if type(question) is question_class and not changes:
                    return answer(cast(Q, question))
                values = _shared(question, question_class) | changes
                args = ()
            known = arguments(question_class)
            for name in values.keys() - known.keys():
                raise unknown_name(f"{answer.__name__}()", "argument", name, known)
            asked: Any = question_class(*args, **values)
            return answer(asked)

        return _described(verb, answer, question_class)

    return decorate


def _shared(question: Question, question_class: Any) -> dict[str, Any]:
    """The values of a question that another class of questions can have too."""
    values = {}
    for name, argument in arguments(question_class).items():
        value = getattr(question, name, None)
        if value is not None or (argument.optional and hasattr(question, name)):
            values[name] = value
    return values


def _described(verb: Any, answer: Callable[..., Any], question_class: Any) -> Any:
    """A verb with the signature of its question, whose arguments its docstring explains."""
    known = arguments(question_class)
    lines = [f"    {name}: {as_names(argument.help)}" for name, argument in known.items()]
    verb.__doc__ = "\n".join([as_names(getdoc(answer) or ""), "", "Arguments:", *lines])
    parameters = signature(question_class).parameters.values()
    plain = [each.replace(annotation=_type_of_field(each.annotation)) for each in parameters]
    verb.__signature__ = Signature(plain, return_annotation=signature(answer).return_annotation)
    verb.question = question_class
    return verb


def _type_of_field(annotation: Any) -> Any:
    """The type that a field has after reading, such as ``int`` where ``32k`` may be given."""
    type_ = _without_argument(annotation)
    return get_args(type_)[0] if get_origin(type_) is Parsed else type_


def _without_argument(annotation: Any) -> Any:
    """An annotation without its argument."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
