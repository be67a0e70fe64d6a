"""The arguments of every question, each declared once: what it means, and how what is given is read.

A question is a frozen dataclass (`question`) whose fields are annotated with these; a field that only one
question has declares its own `argument`. Making a question reads all that is given, text such as ``"32k"`` or
Python's values, once: its fields have one type each. The command line makes its flags of the same arguments.
`asks` turns a function of a question into one of its arguments. The arguments of measuring are declared in
`validate/cli/arguments.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache, wraps
from inspect import Signature, getdoc, signature
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ParamSpec,
    Protocol,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from perfmodel.answers.question.readers import (
    READERS,
    Length,
    MaybeReal,
    MaybeWhole,
    Parsed,
    Read,
    Whole,
    count,
    counts,
    gamma,
    gammas,
    methods,
    names,
    numbers,
    rate,
    whole,
)
from perfmodel.errors import InputError, as_names, in_names, refuse, unknown_name
from perfmodel.parse import items, parse_text
from perfmodel.speculation.workload import MAX_GAMMA

COUNTS, TOKENS = "COUNTS", "TOKENS"
TASKS = ("chat", "code", "math", "qa", "summary", "translation", "agent", "mixed")
"""Kinds of text in ``results/published/acceptance.csv``."""
SELF_DRAFT_KV = "streamingllm:512"
"""What a self-draft reads where the question leaves it open: one that reads the whole cache can never pay,
and this is the method and budget of most acceptances in ``results/published``.
"""


TINY, HUGE = 5e-324, 1.7976931348623157e308
POSITIVE, SHARE = (TINY, HUGE), (0.0, 1.0)
"""Limits of an argument: the least and the largest number, both allowed."""


@dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One argument: `help`, how its value is written on the command line, and more flags than the one of its
    name.

    read: makes the value of what is given, or refuses it; by default as its annotation says (`READERS`).
    many: the same for lists, where a command takes them. repeated: a flag that may be given several times.
    default: how the default is shown. optional: None is a value. limits, choices: what a value must be
    (choices are its metavar too). flag: as it is typed, ``--draft-kv`` of ``draft_kv`` unless it is declared
    with another; of one that is given by position (`place`) its metavar.
    group: its heading in ``--help``. fallback: the default, read. listed: the verb that lists its names, for
    completion in a shell.
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

    @property
    def allowed(self) -> str:
        """The limits in words."""
        low, high = self.limits or POSITIVE
        noun = "whole number" if self.read in (count, counts, whole) else "number"
        ends = (
            f"above 0{f' and at most {high:g}' * (high < HUGE)}"
            if low == TINY
            else f"from {low:g} to {high:.0f}"
        )
        return f"a {'finite ' * (high == HUGE)}{noun} {ends}"

    def value(self, given: Any, name: str) -> Any:
        """What is given, read and checked. Raises InputError naming the flag of the parameter `name`."""
        if given is None and self.optional:
            return None
        assert self.read is not None
        value = self.read(given, self.flag)
        if self.limits is not None:
            within(value, self.flag, *self.limits, self.allowed)
        if self.choices and value not in self.choices:
            raise unknown_name(self.flag, name.replace("_", " "), value, self.choices)
        return value

    def __repr__(self) -> str:
        return repr(self.help)


def within(given: Any, shown: str, low: float, high: float, allowed: str) -> None:
    """Refuse (InputError) a number, or one of several, outside low ... high, both included; None is fine."""
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
    """A field of a question: its `Argument` with more of what that takes, its default, and how people are
    shown it. Without `help` the argument is its annotation's.
    """
    if not help:
        return field(default=default)
    declared = Argument(help, metavar, also, read, default=shown, **more)
    return field(default=default, metadata={"argument": declared})


T = TypeVar("T")


@dataclass_transform(field_specifiers=(argument,))
def question(kind: type[T]) -> type[T]:
    """A frozen dataclass whose fields get what `Question.read` makes of the values that are given."""
    made: Any = dataclass(frozen=True)(kind)
    assign = made.__init__

    @in_names
    @wraps(assign)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        assign(self, **self.read(args, given))

    made.__init__ = __init__
    return made


def listed(alias: Any) -> Argument:
    """The argument of an annotation below, taking a list."""
    (argument,) = get_args(alias)[1:]
    assert isinstance(argument, Argument)
    assert argument.many is not None
    return replace(argument, read=argument.many)


Model = Annotated[
    str,
    Argument(
        "Target model: a name of `perfmodel models list`, or a file (config.json, .gguf).",
        "NAME|PATH",
        "-m",
        many=names,
        listed="models",
    ),
]
Hardware = Annotated[
    str,
    Argument(
        "Device: of `perfmodel gpus list` (NAME:pcie5 for PCIe 5.0 links, NAME:96gb for that much memory), "
        "or a YAML file.",
        "NAME|PATH",
        "--gpu --device",
        many=names,
        listed="gpus",
    ),
]
Batch = Annotated[
    Whole, Argument("Batch size: sequences decoded together.", COUNTS, "--batch-size -b", many=counts)
]
Context = Annotated[
    Whole, Argument("Cached tokens per sequence; 32k is 32768.", TOKENS, "--context-length -c", many=counts)
]
Gamma = Annotated[
    Length,
    Argument(
        "Drafted tokens per iteration; auto searches for the best length, from 0.",
        "N|auto",
        "-g",
        gamma,
        gammas,
        default="auto",
    ),
]
GivenGamma = Annotated[
    Whole, Argument("Drafted tokens per iteration, 1 or more.", "N", "-g", many=counts, limits=(1, MAX_GAMMA))
]
TP = Annotated[
    Whole, Argument("Devices of the tensor-parallel group.", "N", "--tensor-parallel", many=counts)
]
WHO_DRAFTS = "Draft: the target itself (self), a kind, or a model."
Draft = Annotated[str, Argument(WHO_DRAFTS, "self|KIND|NAME|PATH", "--draft-model", group="Draft")]
DraftTP = Annotated[
    MaybeWhole,
    Argument(
        "Tensor-parallel devices of the draft.",
        "N",
        default="as --tp, or as many as it allows",
        group="Draft",
    ),
]
DraftKV = Annotated[
    str | None,
    Argument(
        "KV method and budget of the draft: a name of `perfmodel kv list`.",
        "METHOD[:BUDGET]",
        many=methods,
        listed="kv",
        default=f"{SELF_DRAFT_KV} for --draft self, else full",
        group="Draft",
    ),
]
Alpha = Annotated[
    MaybeReal,
    Argument(
        "Probability that a drafted token is accepted, given that all earlier ones are.",
        "RATE",
        many=numbers,
        limits=SHARE,
        group="Acceptance",
    ),
]
ChainRate = Annotated[
    Parsed[str | None, str | float | None],
    Argument(
        "Instead of --alpha: acceptance by position 0.75/0.65/0.5, or n-gram hits x run length 0.4x3.",
        "RATE",
        read=rate,
        group="Acceptance",
    ),
]
TokensPerIteration = Annotated[
    MaybeReal,
    Argument(
        "Tokens gained per iteration at the given --gamma, instead of --alpha.", "N", group="Acceptance"
    ),
]
AcceptanceFile = Annotated[
    str | None, Argument("File of measured acceptance rows, instead of a rate.", "FILE", group="Acceptance")
]
Task = Annotated[
    str | None,
    Argument(
        "Kind of text, if the acceptance comes from published results.",
        "NAME",
        choices=TASKS,
        default="chat, with the spread between tasks",
        group="Acceptance",
    ),
]
Weights = Annotated[
    str | None,
    Argument(
        "Format of the weights: bf16, fp8, nvfp4, int4-g128, ...",
        "FORMAT",
        "--dtype",
        default="the checkpoint's",
        group="Formats",
    ),
]
KVType = Annotated[
    str | None,
    Argument(
        "Format of the KV cache: bf16, fp8, int8, ...",
        "FORMAT",
        "--kv-cache-dtype",
        default="the checkpoint's",
        group="Formats",
    ),
]
DraftPath = Annotated[
    str | None,
    Argument(
        "Path or id of the draft or head, for the server's command line.",
        "PATH",
        default="the id of --draft",
        group="Draft",
    ),
]
ModelPath = Annotated[
    str | None,
    Argument(
        "Path or id of the model, for the server's command line.",
        "PATH|ID",
        default="the Hugging Face id of --model",
    ),
]
MaxGamma = Annotated[
    Whole,
    Argument(
        "Longest draft length that the search tries.",
        "N",
        read=whole,
        limits=(0, MAX_GAMMA),
        group="Draft",
    ),
]


def _arguments(kind: Any) -> dict[str, Argument]:
    """Of a question, as help lists them: positional ones, then its own, then those of the classes it
    extends.
    """
    hints = get_type_hints(kind, include_extras=True)
    classes = [vars(parent).get("__annotations__", {}) for parent in kind.__mro__]

    def place(field: Field[Any]) -> int:
        own_class = next(i for i, names in enumerate(classes, 1) if field.name in names)
        return own_class if field.kw_only else 0

    placed = sorted(fields(kind), key=place)
    declared = {}
    for one in placed:
        argument = declared_by(one.name, hints[one.name], one.metadata.get("argument"))
        if argument is not None:
            fallback = None if one.default is MISSING else argument.value(one.default, one.name)
            declared[one.name] = replace(argument, fallback=fallback)
    return declared


def declared_by(name: str, hint: Any, own: Argument | None = None) -> Argument | None:
    """A parameter's argument, its annotation's or its field's own, as its type has it; None without one."""
    found = own or next(
        (note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Argument)), None
    )
    if found is None:
        return None
    bare = _bare(hint)
    parsed = get_origin(bare) is Parsed
    if parsed:
        bare = get_args(bare)[0]
    types = get_args(bare) if isinstance(bare, UnionType) else (bare,)
    kinds = tuple(kind for kind in types if kind is not NoneType)
    read = found.read or READERS.get(kinds, parse_text)
    several = found.repeated or (kinds == (tuple[str, ...],) and not parsed)
    typed = found.metavar if found.place else found.flag or flag(name)
    return replace(found, flag=typed, read=read, repeated=several, optional=NoneType in types)


arguments: Callable[[Any], dict[str, Argument]] = cache(_arguments)
"""Name -> argument of a question's class, those that may be given by position first, those of all questions
last.
"""


def flag(name: str) -> str:
    """``draft_kv`` as it is marked in messages and typed on the command line: ``--draft-kv``."""
    return "--" + name.replace("_", "-")


@question
class Question:
    """A question whose fields are read, and whose limits are checked, when it is made (InputError)."""

    @classmethod
    def read(cls, args: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
        """Field -> value, of what is given by position and by name.

        Raises InputError for an argument that there is not, one that is missing, and what cannot be read.
        """
        known = {f.name: f for f in fields(cls)}
        placed = [f.name for f in known.values() if not f.kw_only]
        if len(args) > len(placed) or given.keys() & placed[: len(args)]:
            raise TypeError(f"{cls.__name__}() takes {', '.join(placed)} by position or by name, each once")
        for name in given.keys() - known.keys():
            raise unknown_name(f"{cls.__name__}()", "argument", name, known)
        values = dict(zip(placed, args, strict=False)) | given
        for name, f in known.items():
            if name not in values and f.default is MISSING:
                raise InputError(f"{flag(name)}: must be given")
        read = {
            name: argument.value(values[name], name) if name in values else argument.fallback
            for name, argument in arguments(cls).items()
        }
        return cls.settled(read)

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values that were read, where some follow from others. Raises InputError."""
        return values

    @in_names
    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse what no answer could take (InputError)."""

    def within(self, name: str, low: float, high: float, allowed: str) -> None:
        """Refuse a number that the rest of the question keeps in low ... high, both included; None is
        fine.
        """
        within(getattr(self, name), flag(name), low, high, allowed)

    def __dir__(self) -> list[str]:
        return [*arguments(type(self)), "as_dict"]

    def as_dict(self) -> dict[str, Any]:
        """The question with all defaults, for the answer."""
        return {name: getattr(self, name) for name in arguments(type(self))}


P = ParamSpec("P")
Q = TypeVar("Q", bound=Question)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Verb(Protocol[P, A_co]):
    """A function of a question's arguments, or of a question made before with some of its arguments
    changed.
    """

    question: type[Any]
    __name__: str

    @overload
    def __call__(self, question: Question, /, **changes: Any) -> A_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A_co: ...


def asks(kind: Callable[P, Q]) -> Callable[[Callable[[Q], A]], Verb[P, A]]:
    """Let a function of a question take that question's arguments; `question` is its class, for the command
    line.
    """
    assert isinstance(kind, type)

    def decorate(answer: Callable[[Q], A]) -> Verb[P, A]:
        @in_names
        @wraps(answer)
        def verb(*args: Any, **kwargs: Any) -> A:
            if args and isinstance(args[0], Question):
                given, *more = args
                if more:
                    raise TypeError(f"{answer.__name__}() takes one question, and changes to it by name")
                shared = {name: getattr(given, name) for name in arguments(kind) if hasattr(given, name)}
                left_open = {
                    name for name in shared if shared[name] is None and not arguments(kind)[name].optional
                }
                args, kwargs = (), {name: shared[name] for name in shared.keys() - left_open} | kwargs
            for name in kwargs.keys() - arguments(kind).keys():
                raise unknown_name(f"{answer.__name__}()", "argument", name, arguments(kind))
            question: Any = kind(*args, **kwargs)
            return answer(question)

        bare = [p.replace(annotation=_bare(p.annotation)) for p in signature(kind).parameters.values()]
        lines = [f"    {name}: {as_names(argument.help)}" for name, argument in arguments(kind).items()]
        verb.__doc__ = "\n".join([as_names(getdoc(answer) or ""), "", "Arguments:", *lines])
        verb.__signature__ = Signature(bare, return_annotation=signature(answer).return_annotation)  # type: ignore[attr-defined]
        verb.question = kind  # type: ignore[attr-defined]
        return verb  # type: ignore[return-value]

    return decorate


def _bare(annotation: Any) -> Any:
    """An annotation without its argument, as people read it."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
