"""One row of a benchmark file: the time of one decoding step, with its batch, context and draft length."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from perfmodel.errors import InputError, refuse
from perfmodel.specs import Frozen, files

MAX_PREFILL_SHARE = 0.06
"""Share of the time between tokens that other requests' prompts may take in a usable row."""
MISSING_SHARE = 0.15
"""Share of a draft's tokens that may be missing at the ends of answers before the length is rounded down."""
Tokens = Annotated[float, Meta(ge=0, le=1e9)]
Seconds = Annotated[float, Meta(ge=0, le=1e5)]


class Timing(Frozen):
    """One measured step of an engine.

    kind: an ``iteration`` of the serving loop (at gamma 0 one baseline step), a bare target ``pass`` over
    gamma + 1 tokens of each sequence, or a ``pass_with_draft``. seconds: its time. batch: sequences decoded
    together. context: cached tokens of one sequence in the middle of the run. tokens_per_iteration: gained by
    one sequence, including the bonus token; 1 at gamma 0. how: the origin of `seconds`. prefill_share:
    estimated share of other requests' prefill in `seconds`.
    """

    where: str = ""
    seconds: Annotated[float, Meta(ge=1e-9, le=1e5)]
    batch: Annotated[float, Meta(ge=1e-3, le=1e9)]
    context: Tokens
    gamma: Annotated[int, Meta(ge=0, le=4096)]
    kind: Literal["iteration", "pass", "pass_with_draft"] = "iteration"
    tokens_per_iteration: Annotated[float, Meta(ge=1, le=4097)] = 1.0
    output: Tokens | None = None
    prompt: Tokens | None = None
    how: str = ""
    prefill_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    ttft_s: Annotated[float, Meta(ge=1e-9, le=1e5)] | None = None
    samples: tuple[Seconds, ...] = ()

    @classmethod
    def checked(cls, **values: Any) -> "Timing":
        """Refuses (InputError) values that no engine can report."""
        return files.parse(cls, values, values["where"])

    @property
    def name(self) -> str:
        """The point in words."""
        draft = f"K={self.gamma}" if self.gamma else "baseline"
        return f"B={self.batch:g} S={self.context:.0f} {draft}"

    @property
    def tpot_s(self) -> float:
        """Time per output token of one sequence."""
        return self.seconds / self.tokens_per_iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFacts:
    """Facts about a file from the command line that the file lacks; None if not given."""

    batch: float | None = None
    input: float | None = None
    output: float | None = None
    gamma: int | None = None
    accepted: float | None = None
    """Tokens per iteration."""

    def over(self, other: "GivenFacts") -> "GivenFacts":
        """These facts, completed with others."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(other, **{name: value for name, value in facts.items() if value is not None})


_FLAGS = {"input": " or --context N", "gamma": " or --gamma N"}
"""Facts that have flags of their own."""


class MissingFact(InputError):
    """A text lacks a figure that the command line can state. key: its name in `GivenFacts`."""

    def __init__(self, where: str, key: str) -> None:
        flag = _FLAGS.get(key, "")
        way = f"as in --from {where.partition(': ')[0]},{key}=N{flag}: the file does not say"
        super().__init__(f"{where}: {key}: must be stated, {way}")
        self.key = key


def needed(where: str, key: str, value: float | None) -> float:
    """A figure that the file or the command line must state. Raises MissingFact with the way to state it."""
    if value is None:
        raise MissingFact(where, key)
    return value


class RequestLengths(NamedTuple):
    """Tokens of a prompt and of its answer."""

    prompt: float
    answer: float


class SpeculatedTokens(NamedTuple):
    """The draft length, and the tokens that one sequence gains in an iteration, bonus token included."""

    gamma: int
    tokens_per_iteration: float


NOT_SPECULATED = SpeculatedTokens(0, 1.0)


def stated_lengths(where: str, facts: GivenFacts) -> RequestLengths:
    """The lengths of a text that prints neither. Without ``output=N`` the step lies
    behind one token, so that ``input=N`` is its context. Raises MissingFact without ``input=N``.
    """
    return RequestLengths(needed(where, "input", facts.input), facts.output or 1.0)


def drafted_length(mean: float) -> int:
    """The draft length behind the mean tokens of a draft, which the ends of answers shorten."""
    return max(math.ceil(mean - MISSING_SHARE * mean), 1)


def speculation(where: str, facts: GivenFacts, accepted: float | None, gamma: int | None) -> SpeculatedTokens:
    """What a step speculated, by the file and the command line. Raises InputError."""
    length = facts.gamma if gamma is None else gamma
    gained = facts.accepted if accepted is None else accepted
    if gamma is not None and facts.gamma is not None and gamma != facts.gamma:
        raise refuse(where, "gamma", f"{gamma}, the draft length in the file", facts.gamma)
    if not length:
        if gained is not None and gained > 1:
            needed(where, "gamma", None)
        return NOT_SPECULATED
    value = needed(where, "accepted", gained)
    if not 1 <= value <= length + 1:
        raise refuse(where, "tokens per iteration", f"from 1 to gamma + 1 = {length + 1}", value)
    return SpeculatedTokens(length, float(value))
