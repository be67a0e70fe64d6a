"""A row of a benchmark file: the time of one decoding step with its batch, context and draft length, and the
facts that the user adds.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from perfmodel.errors import InputError, refuse
from perfmodel.specs import Frozen, files

MAX_PREFILL_SHARE = 0.06
"""Largest share of the time between tokens that the prompts of other requests take in a usable row."""
EXCESS_SHARE = 0.15
EXCESS_TOKENS = 0.5
"""Largest ignored excess of the mean draft over a draft length, as a share of the mean and in tokens."""
Tokens = Annotated[float, Meta(ge=0, le=1e9)]
Seconds = Annotated[float, Meta(ge=0, le=1e5)]


class Timing(Frozen):
    """One measured step of an engine.

    - kind: ``iteration`` is an iteration of the serving loop; at gamma 0, this is one baseline step. ``pass``
      is one pass of the target over gamma + 1 tokens of each sequence. ``pass_with_draft`` also has the
      passes of the draft.
    - seconds: the time of the step.
    - batch: sequences decoded together.
    - context: cached tokens of one sequence in the middle of the run.
    - tokens_per_iteration: the tokens that one sequence gains, including the bonus token; 1 at gamma 0.
    - how: how `seconds` was computed.
    - prefill_share: the estimated share of `seconds` that the prefill of other requests takes.
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
        """A timing with these values. Raises InputError for values that no engine can report."""
        return files.parse(cls, values, values["where"])

    @property
    def name(self) -> str:
        """A short text with batch, context and draft length."""
        draft = f"K={self.gamma}" if self.gamma else "baseline"
        return f"B={self.batch:g} S={self.context:.0f} {draft}"

    @property
    def tpot_s(self) -> float:
        """Time per output token of one sequence."""
        return self.seconds / self.tokens_per_iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFacts:
    """Facts about a file that the user gives on the command line, because the file lacks them. A fact that is
    not given is None.
    """

    batch: float | None = None
    input: float | None = None
    output: float | None = None
    gamma: int | None = None
    accepted: float | None = None
    """Tokens per iteration."""

    def over(self, other: "GivenFacts") -> "GivenFacts":
        """These facts, and those of `other` for facts that were not given."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(other, **{name: value for name, value in facts.items() if value is not None})

    def after(self, file: str) -> str:
        """The name of a file, which other facts may follow, with these facts: ``FILE,batch=4.0``."""
        values = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        return ",".join(
            [file.split(",")[0], *(f"{name}={value}" for name, value in values if value is not None)]
        )


_FLAGS = {"input": " or --context N", "gamma": " or --gamma N"}
"""Fact -> further flags that can state it."""


class MissingFact(InputError):
    """Raised if a text lacks facts that the user can give on the command line.

    - keys: the names of the facts in `GivenFacts`.
    - meaning: the meaning of a fact in this text, in words.
    """

    def __init__(self, where: str, *keys: str, meaning: str = "") -> None:
        flags = "".join(_FLAGS.get(key, "") for key in keys)
        facts = ",".join(f"{key}=N" for key in keys)
        way = f"as in --from {where.partition(': ')[0]},{facts}{flags}: the file does not say"
        super().__init__(f"{where}: {', '.join(keys)}: must be stated, {way}{meaning and f'; {meaning}'}")
        self.where = where
        self.keys = keys


def needed(where: str, key: str, value: float | None) -> float:
    """The value of a fact that the file or the command line must state. Raises MissingFact, which says how to
    state it.
    """
    if value is None:
        raise MissingFact(where, key)
    return value


class RequestLengths(NamedTuple):
    """The lengths of a prompt and of its answer, in tokens."""

    prompt: float
    answer: float


class SpeculatedTokens(NamedTuple):
    """The draft length, and the tokens that one sequence gains per iteration, including the bonus token."""

    gamma: int
    tokens_per_iteration: float


NOT_SPECULATED = SpeculatedTokens(0, 1.0)


def stated_lengths(where: str, facts: GivenFacts) -> RequestLengths:
    """The lengths for a text that does not state them. Without ``output=N``, the answer has one token, so the
    context of the step is about ``input=N``. Raises MissingFact without ``input=N``.
    """
    return RequestLengths(needed(where, "input", facts.input), facts.output or 1.0)


def drafted_length(mean: float) -> int:
    """The draft length that follows from the mean number of tokens per draft. The mean is rounded up, because
    drafts at the end of an answer are shorter. A small excess over a whole number is ignored, because the
    counts can lack the last iteration of an answer.
    """
    excess = min(EXCESS_SHARE * mean, EXCESS_TOKENS)
    return max(math.ceil(mean - excess), 1)


def speculation(where: str, facts: GivenFacts, accepted: float | None, gamma: int | None) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a step. Raises InputError.

    - accepted, gamma: the tokens per iteration and the draft length in the file; None if it does not state
      them. `facts` replaces missing values.
    """
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
