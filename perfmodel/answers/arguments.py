"""The arguments of every question, each declared once: what it means, and how what is given is read.

A question is a frozen dataclass whose fields are annotated with these. The command line makes its flags of them, and
in Python they read the same text: ``context="32k"``. `asks` turns a function of a question into one of its arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache, wraps
from inspect import Signature, getdoc, signature
from types import NoneType
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar, get_args, get_type_hints, overload

from perfmodel.errors import as_names, in_names, refuse
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
from perfmodel.specs.stacks import ENGINES
from perfmodel.speculation.scenario import Accounting, Rollback

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
        found = [value for item in items(given) for value in parse(item, flag)]
        if not found:
            raise refuse(flag, None, "one value or more", "none")
        return tuple(found)

    return read


def as_given(given: Any, flag: str) -> Any:
    """What an answer reads itself."""
    return given


def _whole(given: object, flag: str) -> int:
    return parse_count(given, flag, least=0)


def _span(given: Any, flag: str) -> tuple[float, float]:
    if isinstance(given, str):
        return parse_span(given, flag)
    found = [float(parse_count(end, flag)) for end in items(given)]
    if len(found) != 2:
        raise refuse(flag, None, "two numbers such as 32..256", given)
    return found[0], found[1]


def value(given: Number) -> float:
    """A number of a question that was made, which has been read."""
    assert not isinstance(given, str)
    return given


count, counts = parse_count, several(parse_counts)
whole, gamma, gammas = _whole, parse_gamma, several(parse_gammas)
number, numbers = parse_number, several(parse_numbers)
names, methods = several(parse_names), several(parse_methods)


@dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One argument: `help`, how its value is written on the command line, and more flags than the one of its name.

    read: makes the value of what is given, or refuses it. many: the same for lists, where a command takes them.
    repeated: a flag that may be given several times. default: how the default is shown. optional: None is a value.
    """

    help: str
    metavar: str = ""
    also: str = ""
    read: Read = parse_text
    many: Read | None = None
    repeated: bool = False
    default: str | None = None
    optional: bool = False

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
    str, Argument("Who drafts: the target itself, a kind, or a model.", "self|KIND|NAME|PATH", "--draft-model")
]
DraftTP = Annotated[
    Number | None, Argument("Devices of the draft (default: as --tp, or as many as it allows).", "N", read=count)
]
DraftKV = Annotated[
    str | None,
    Argument(
        "What the draft reads of the cache: a name of `perfmodel kv list`.",
        "METHOD[:BUDGET]",
        many=methods,
        default=f"{SELF_DRAFT_KV} for --draft self, else full",
    ),
]
Alpha = Annotated[
    Number | None,
    Argument("P(a drafted token is accepted, given all before it are).", "RATE", "--acceptance-rate", number, numbers),
]
TokensPerIteration = Annotated[
    Number | None, Argument("Tokens gained per iteration at the given --gamma, instead of --alpha.", "N", read=number)
]
AcceptanceFile = Annotated[str | None, Argument("Measured acceptance rows, instead of --alpha.", "FILE")]
Weights = Annotated[
    str | None,
    Argument("Weights: bf16, fp8, nvfp4, int4-g128, ... (default: the checkpoint's).", "FORMAT", "--dtype"),
]
DraftWeights = Annotated[
    str | None, Argument("The draft's weights (default: as --weights, else its checkpoint's).", "FORMAT")
]
KVType = Annotated[
    str | None,
    Argument("KV cache: bf16, fp8, int8, ... (default: the checkpoint's).", "FORMAT", "--kv-cache-dtype"),
]
DraftKVType = Annotated[str | None, Argument("The draft's KV-cache format (default: as --kv-dtype).", "FORMAT")]
KVReread = Annotated[
    Number | None,
    Argument("How often verification reads the cache, 1 to gamma + 1 (default: calibrated).", "R", read=number),
]
EngineName = Annotated[
    str | None,
    Argument(f"What serves (default: {DEFAULT_ENGINE}; a CPU its own).", "|".join(ENGINES)),
]
CalibrationName = Annotated[
    str | None, Argument("Constants, instead of --engine's (`perfmodel calibrations list`).", "NAME|PATH|ideal")
]
ContextStd = Annotated[
    Number, Argument("Standard deviation of --context over the sequences of a batch.", "COUNT", read=whole)
]
AccountingName = Annotated[
    str, Argument("Do sequences advance each on its own, or all by the least?", "|".join(get_args(Accounting)))
]
NewTokens = Annotated[Number, Argument("Tokens each sequence needs, for --accounting static.", TOKENS, read=count)]
KVPage = Annotated[Number, Argument("Tokens per page of the caches.", TOKENS, "--block-size", count)]
TopkReuse = Annotated[
    Number,
    Argument("Sparse attention: chosen tokens that the next query token chooses again.", "SHARE", read=number),
]
StateRollback = Annotated[
    str, Argument("Recurrent layers: verification keeps every state, or one.", "|".join(get_args(Rollback)))
]
MaxGamma = Annotated[Number, Argument("Longest draft that the search for the best one tries.", "N", read=whole)]
BatchRange = Annotated[
    tuple[float, float] | str,
    Argument(
        "Batches over which speedup must not fall at inflection_context.", "LOW..HIGH", read=_span, default="32..256"
    ),
]
MemoryFraction = Annotated[
    Number, Argument("Share of device memory that may be used.", "SHARE", "--gpu-memory-utilization", number)
]


def _arguments(kind: Any) -> dict[str, Argument]:
    hints = get_type_hints(kind, include_extras=True)
    classes = [vars(parent).get("__annotations__", {}) for parent in kind.__mro__]

    def place(field: Field[Any]) -> tuple[bool, int]:
        return bool(field.kw_only), next(i for i, names in enumerate(classes) if field.name in names)

    found: dict[str, Argument] = {}
    for field in sorted(fields(kind), key=place):
        hint = hints[field.name]
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Argument):
                found[field.name] = replace(note, optional=NoneType in get_args(_bare(hint)))
    return found


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
                object.__setattr__(self, name, argument.read(given, flag(name)))
        self.check()

    def check(self) -> None:
        """Refuse what no answer could take (InputError)."""

    def within(self, name: str, low: float, high: float, allowed: str) -> None:
        """Refuse a number outside low ... high, both included; None is fine."""
        given = getattr(self, name)
        if given is not None and not low <= given <= high:
            raise refuse(flag(name), None, allowed, given)

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
        told = [f"    {name}: {as_names(argument.help)}" for name, argument in arguments(kind).items()]
        asked.__doc__ = "\n".join([getdoc(answer) or "", "", "Arguments:", *told])
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
