"""The arguments of every question, each declared once: what it means, and how what is given is read.

A question is a frozen dataclass whose fields are annotated with these. The command line makes its flags of them, and
in Python they read the same text: ``context="32k"``. `asks` turns a function of a question into one of its arguments.
What only measuring takes is declared in `validate/cli/arguments.py`, what only one verb takes in its question.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache, wraps
from inspect import Signature, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar, get_args, get_type_hints, overload

from perfmodel.errors import as_names, in_names, refuse, unknown_name
from perfmodel.parse import (
    items,
    parse_count,
    parse_counts,
    parse_gamma,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_number,
    parse_numbers,
    parse_span,
    parse_text,
)
from perfmodel.specs.stacks import DEFAULT as DEFAULT_ENGINE
from perfmodel.specs.stacks import ENGINES, parse_engine
from perfmodel.speculation.scenario import Accounting, Rollback
from perfmodel.speculation.workload import MAX_GAMMA

Number = float | str
"""A number, or text such as ``32k``."""
Numbers = Number | Sequence[Number]
Names = str | Sequence[str]
Read = Callable[[Any, str], Any]
COUNTS, TOKENS = "COUNTS", "TOKENS"
SELF_DRAFT_KV = "streamingllm:512"
"""What a self-draft reads where the question leaves it open: one that reads the whole cache can never pay, and this is
the method and budget of most acceptances in ``results/published``."""


def several(parse: Callable[[object, str], tuple[Any, ...]]) -> Read:
    """Reads one value, text with commas and ranges, or a sequence of either, into a tuple."""

    def read(given: Any, flag: str) -> tuple[Any, ...]:
        values = [value for item in items(given) for value in parse(item, flag)]
        if not values:
            raise refuse(flag, None, "one value or more", "none")
        return tuple(values)

    return read


def as_given(given: Any, flag: str) -> Any:
    """What an answer reads itself."""
    return given


def _whole(given: object, flag: str) -> int:
    return parse_count(given, flag, least=0)


def _span(given: Any, flag: str) -> tuple[float, float]:
    if isinstance(given, str):
        return parse_span(given, flag)
    ends = [float(parse_count(end, flag)) for end in items(given)]
    if len(ends) != 2:
        raise refuse(flag, None, "two numbers such as 32..256", given)
    return ends[0], ends[1]


def _text(given: object, flag: str) -> tuple[str]:
    return (parse_text(given, flag),)


def path(given: object, flag: str) -> Path:
    """A file or folder."""
    return Path(parse_text(given, flag))


def value(given: Number) -> float:
    """A number of a question that was made, which has been read."""
    assert not isinstance(given, str)
    return given


count, counts = parse_count, several(parse_counts)
whole, gamma, gammas = _whole, parse_gamma, several(parse_gammas)
number, numbers = parse_number, several(parse_numbers)
names, methods, texts = several(parse_names), several(parse_methods), several(_text)
QUESTION, DRAFT, ACCEPTANCE, FORMATS, ENGINE, OUTPUT = "Question", "Draft", "Acceptance", "Formats", "Engine", "Output"
GROUPS = (QUESTION, DRAFT, ACCEPTANCE, FORMATS, ENGINE, OUTPUT)
"""Headings of ``--help``, in this order."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The least and the largest number, both allowed, and how a refusal words them."""

    least: float
    most: float
    allowed: str = ""

    def check(self, given: Any, flag: str) -> None:
        """Refuse (InputError) a number, or one of several, outside; None is fine."""
        for number in items(given):
            if number is not None and not self.least <= number <= self.most:
                raise refuse(flag, None, self.allowed or f"a number from {self.least:g} to {self.most:g}", number)


POSITIVE = Limits(5e-324, 1.7976931348623157e308, "a finite number above 0")
SHARE = Limits(0, 1)


@dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One argument: `help`, how its value is written on the command line, and more flags than the one of its name.

    read: makes the value of what is given, or refuses it. many: the same for lists, where a command takes them.
    repeated: a flag that may be given several times. default: how the default is shown. optional: None is a value.
    limits, choices: what a value must be. group: its heading in ``--help``. flag: its name on the command line where
    it is not that of the parameter. place: given by position, without a flag.
    """

    help: str
    metavar: str = ""
    also: str = ""
    read: Read = parse_text
    many: Read | None = None
    repeated: bool = False
    default: str | None = None
    optional: bool = False
    limits: Limits | None = None
    choices: tuple[str, ...] = ()
    group: str = QUESTION
    flag: str = ""
    place: bool = False

    def named(self, name: str) -> str:
        """The flag of a parameter, as it is typed: ``--draft-kv`` of ``draft_kv``; its metavar where it has none."""
        return self.metavar if self.place else self.flag or flag(name)

    def value(self, given: Any, name: str) -> Any:
        """What is given, read and checked. Raises InputError naming the flag of the parameter `name`."""
        value, shown = self.read(given, self.named(name)), self.named(name)
        if self.limits is not None:
            self.limits.check(value, shown)
        if self.choices and value not in self.choices:
            raise unknown_name(shown, name.replace("_", " "), value, self.choices)
        return value

    def __repr__(self) -> str:
        return repr(self.help)


def listed(alias: Any) -> Argument:
    """The argument of an annotation below, taking a list."""
    (argument,) = get_args(alias)[1:]
    assert isinstance(argument, Argument)
    assert argument.many is not None
    return replace(argument, read=argument.many)


Model = Annotated[
    str,
    Argument(
        "Target model: a name of `perfmodel models list`, or a file (config.json).", "NAME|PATH", "-m", many=names
    ),
]
Hardware = Annotated[
    str,
    Argument("Device: a name of `perfmodel gpus list`, or a YAML file.", "NAME|PATH", "--gpu --device", many=names),
]
Batch = Annotated[Number, Argument("Sequences decoded together.", COUNTS, "--batch-size -b", count, counts)]
Context = Annotated[
    Number, Argument("Cached tokens per sequence; 32k is 32768.", TOKENS, "--context-length -c", count, counts)
]
Gamma = Annotated[
    int | str | None,
    Argument(
        "Drafted tokens per iteration; auto is the best from 0 on.", "N|auto", "-g", gamma, gammas, default="auto"
    ),
]
TP = Annotated[Number, Argument("Devices of the tensor-parallel group.", "N", "--tensor-parallel", count, counts)]
Draft = Annotated[
    str,
    Argument("Who drafts: the target itself, a kind, or a model.", "self|KIND|NAME|PATH", "--draft-model", group=DRAFT),
]
DraftTP = Annotated[
    Number | None,
    Argument("Devices of the draft.", "N", read=count, default="as --tp, or as many as it allows", group=DRAFT),
]
DraftKV = Annotated[
    str | None,
    Argument(
        "What the draft reads of the cache: a name of `perfmodel kv list`.",
        "METHOD[:BUDGET]",
        many=methods,
        default=f"{SELF_DRAFT_KV} for --draft self, else full",
        group=DRAFT,
    ),
]
Alpha = Annotated[
    Number | None,
    Argument(
        "P(a drafted token is accepted, given all before it are).",
        "RATE",
        "--acceptance-rate",
        number,
        numbers,
        limits=SHARE,
        group=ACCEPTANCE,
    ),
]
TokensPerIteration = Annotated[
    Number | None,
    Argument(
        "Tokens gained per iteration at the given --gamma, instead of --alpha.", "N", read=number, group=ACCEPTANCE
    ),
]
AcceptanceFile = Annotated[
    str | None, Argument("Measured acceptance rows, instead of --alpha.", "FILE", group=ACCEPTANCE)
]
Weights = Annotated[
    str | None,
    Argument(
        "Weights: bf16, fp8, nvfp4, int4-g128, ...", "FORMAT", "--dtype", default="the checkpoint's", group=FORMATS
    ),
]
DraftWeights = Annotated[
    str | None,
    Argument("The draft's weights.", "FORMAT", default="as --weights, else its checkpoint's", group=FORMATS),
]
KVType = Annotated[
    str | None,
    Argument("KV cache: bf16, fp8, int8, ...", "FORMAT", "--kv-cache-dtype", default="the checkpoint's", group=FORMATS),
]
DraftKVType = Annotated[
    str | None, Argument("The draft's KV-cache format.", "FORMAT", default="as --kv-dtype", group=FORMATS)
]
KVReread = Annotated[
    Number | None,
    Argument(
        "How often verification reads the cache, 1 to gamma + 1.",
        "R",
        read=number,
        default="calibrated",
        limits=Limits(1, 1025, "a number from 1 (the cache is read once) to gamma + 1"),
        group=ENGINE,
    ),
]
EngineName = Annotated[
    str | None,
    Argument(
        "What serves, such as vllm or vllm@0.20.1.",
        "|".join(ENGINES) + "[@VERSION]",
        read=parse_engine,
        default=f"{DEFAULT_ENGINE}, the newest version fitted; a CPU its own",
        group=ENGINE,
    ),
]
CalibrationName = Annotated[
    str | None,
    Argument("Constants, instead of --engine's (`perfmodel calibrations list`).", "NAME|PATH|ideal", group=ENGINE),
]
ContextStd = Annotated[
    Number,
    Argument(
        "Standard deviation of --context over the sequences of a batch.",
        "COUNT",
        read=whole,
        limits=Limits(0, 2**40, "0 or more tokens"),
    ),
]
AccountingName = Annotated[
    str,
    Argument(
        "Do sequences advance each on its own, or all by the least?",
        "|".join(get_args(Accounting)),
        choices=get_args(Accounting),
        group=ACCEPTANCE,
    ),
]
NewTokens = Annotated[
    Number,
    Argument(
        "Tokens each sequence needs, for --accounting static.",
        TOKENS,
        read=count,
        group=ACCEPTANCE,
        limits=Limits(1, 100_000, "a whole number from 1 to 100000"),
    ),
]
KVPage = Annotated[
    Number,
    Argument(
        "Tokens per page of the caches.",
        TOKENS,
        "--block-size",
        count,
        group=ENGINE,
        limits=Limits(1, 2**20, "a whole number of tokens from 1 to 2^20"),
    ),
]
TopkReuse = Annotated[
    Number,
    Argument(
        "Sparse attention: chosen tokens that the next query token chooses again.",
        "SHARE",
        read=number,
        limits=SHARE,
        group=ENGINE,
    ),
]
StateRollback = Annotated[
    str,
    Argument(
        "Recurrent layers: verification keeps every state, or one.",
        "|".join(get_args(Rollback)),
        choices=get_args(Rollback),
        group=ENGINE,
    ),
]
MaxGamma = Annotated[
    Number,
    Argument(
        "Longest draft that the search for the best one tries.",
        "N",
        read=whole,
        group=DRAFT,
        limits=Limits(0, MAX_GAMMA, f"a whole number from 0 to {MAX_GAMMA}"),
    ),
]
BatchRange = Annotated[
    tuple[float, float] | str,
    Argument(
        "Batches over which speedup must not fall at inflection_context.", "LOW..HIGH", read=_span, default="32..256"
    ),
]
MemoryFraction = Annotated[
    Number,
    Argument(
        "Share of device memory that may be used.",
        "SHARE",
        "--gpu-memory-utilization",
        number,
        group=ENGINE,
        limits=Limits(5e-324, 1, "a number above 0 and at most 1"),
    ),
]


def _arguments(kind: Any) -> dict[str, Argument]:
    hints = get_type_hints(kind, include_extras=True)
    classes = [vars(parent).get("__annotations__", {}) for parent in kind.__mro__]

    def place(field: Field[Any]) -> tuple[bool, int]:
        return bool(field.kw_only), next(i for i, names in enumerate(classes) if field.name in names)

    declared = {field.name: declared_by(hints[field.name]) for field in sorted(fields(kind), key=place)}
    return {name: argument for name, argument in declared.items() if argument is not None}


def declared_by(hint: Any) -> Argument | None:
    """The argument of an annotation, None where it has none."""
    notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Argument)]
    return replace(notes[0], optional=NoneType in get_args(_bare(hint))) if notes else None


arguments: Callable[[Any], dict[str, Argument]] = cache(_arguments)
"""Name -> argument of a question's class, those that may be given by position first, those of all questions last."""


def flag(name: str) -> str:
    """``draft_kv`` as it is marked in messages and typed on the command line: ``--draft-kv``."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Question:
    """A question in the user's words. What is given is read and limits are kept when it is made (InputError)."""

    @in_names
    def __post_init__(self) -> None:
        for name, argument in arguments(type(self)).items():
            given = getattr(self, name)
            if given is not None or not argument.optional:
                object.__setattr__(self, name, argument.value(given, name))
        self.check()

    def check(self) -> None:
        """Refuse what no answer could take (InputError)."""

    def within(self, name: str, low: float, high: float, allowed: str) -> None:
        """Refuse a number that the rest of the question keeps in low ... high, both included; None is fine."""
        Limits(low, high, allowed).check(getattr(self, name), flag(name))

    def as_dict(self) -> dict[str, Any]:
        """The question with all defaults, for the answer."""
        return {name: getattr(self, name) for name in arguments(type(self))}


P = ParamSpec("P")
Q = TypeVar("Q", bound=Question)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Verb(Protocol[P, A_co]):
    """A function of a question's arguments, or of a question made before with some of its arguments changed."""

    question: type[Any]
    __name__: str

    @overload
    def __call__(self, question: Question, /, **changes: Any) -> A_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A_co: ...


def asks(kind: Callable[P, Q]) -> Callable[[Callable[[Q], A]], Verb[P, A]]:
    """Let a function of a question take that question's arguments; `question` is its class, for the command line."""
    assert isinstance(kind, type)

    def decorate(answer: Callable[[Q], A]) -> Verb[P, A]:
        @in_names
        @wraps(answer)
        def asked(*args: Any, **kwargs: Any) -> A:
            if args and isinstance(args[0], Question):
                given, *more = args
                if more:
                    raise TypeError(f"{answer.__name__}() takes one question, and changes to it by name")
                shared = {f.name: getattr(given, f.name) for f in fields(kind) if hasattr(given, f.name)}
                args, kwargs = (), shared | kwargs
            question: Any = kind(*args, **kwargs)
            return answer(question)

        bare = [p.replace(annotation=_bare(p.annotation)) for p in signature(kind).parameters.values()]
        lines = [f"    {name}: {as_names(argument.help)}" for name, argument in arguments(kind).items()]
        asked.__doc__ = "\n".join([getdoc(answer) or "", "", "Arguments:", *lines])
        asked.__signature__ = Signature(bare, return_annotation=signature(answer).return_annotation)  # type: ignore[attr-defined]
        asked.question = kind  # type: ignore[attr-defined]
        return asked  # type: ignore[return-value]

    return decorate


def _bare(annotation: Any) -> Any:
    """An annotation without its argument, as people read it."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def required(kind: type, name: str) -> bool:
    """True where an argument has no default."""
    parameter = signature(kind).parameters[name]
    return parameter.default is Signature.empty or parameter.default is MISSING
