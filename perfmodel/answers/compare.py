"""Speculation or batching at one context, and how both compose."""

from dataclasses import dataclass, fields, replace
from typing import Annotated

from perfmodel.answers import arguments as arg
from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import asks
from perfmodel.answers.batching import (
    BothWays,
    Chunked,
    Composition,
    Disaggregation,
    both_ways,
    chunked,
    compose,
    disaggregate,
)
from perfmodel.answers.query import Options, Query, resolve
from perfmodel.answers.readers import Number, count
from perfmodel.answers.text import devices, tokens
from perfmodel.errors import InputError, refuse
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True)
class CompareQuery(Options):
    """A question about m = gamma + 1 tokens of one request against m requests."""

    model: arg.Model
    hardware: arg.Hardware
    context: arg.Context
    gamma: arg.Gamma
    batch: Annotated[
        Number,
        arg.Argument("Sequences of the decode pool and of a shared pass.", "N", "--batch-size -b", count),
    ] = 1
    tp: arg.TP = 1
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = None
    new_tokens: arg.NewTokens = 128

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        if not isinstance(self.gamma, int) or self.gamma < 1:
            raise refuse("--gamma", None, "a whole number from 1", "auto" if self.gamma is None else self.gamma)


@dataclass(frozen=True, slots=True)
class DecodePool:
    """A disaggregated decode pool without and with speculation."""

    baseline: Disaggregation
    speculating: Disaggregation


@dataclass(frozen=True, slots=True)
class IdleTokens:
    """Prompt tokens that a pass can carry (`idle_tokens`): a step of the baseline, and a verification."""

    baseline: float
    verifying: float


@dataclass(frozen=True, slots=True)
class ChunkedPrefill:
    """Chunked prefill in the passes of a batch, without and with speculation."""

    baseline: Chunked
    speculating: Chunked


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Answer, BothWays):
    """Speculation or batching at one context (see `BothWays`), and how both compose; composition is None where not
    even one sequence fits.
    """

    query: Query
    composition: Composition | None
    disaggregated: DecodePool
    idle_tokens: IdleTokens
    chunked_prefill: ChunkedPrefill

    def headline(self) -> str:
        """See `Answer.headline`."""
        q = self.query
        return (
            f"per token gained speculation moves {self.bytes_per_token_ratio:.2f} times batching's bytes and takes "
            f"{self.seconds_per_token_ratio:.2f} times as long; equal bytes from context "
            f"{tokens(self.crossover_context)}; {q.model} on {devices(q.hardware, float(q.tp))}"
        )


@asks(CompareQuery)
def compare(question: CompareQuery) -> Comparison:
    """One request verifying gamma + 1 tokens, or gamma + 1 requests decoding one token each?

    Also how both compose in the memory there is, what speculation does to a disaggregated decode pool, and how much of
    the idle FLOPs it leaves to chunked prefill. Raises InputError.
    """
    query = question.query()
    gamma, batch, context = int(query.gamma or 0), float(query.batch), float(query.context)
    scenario = resolve(query)
    found = both_ways(scenario, context, gamma + 1)
    pools = disaggregate(scenario, batch, context, gamma, int(question.new_tokens))
    alone, verifying = chunked(scenario, batch, context, gamma)
    return Comparison(
        query=replace(query, draft=scenario.draft.name, draft_kv=scenario.draft.kv.label()),
        **{f.name: getattr(found, f.name) for f in fields(found)},
        composition=_composition(scenario, context, gamma, float(query.memory_fraction)),
        disaggregated=DecodePool(*pools),
        idle_tokens=IdleTokens(alone.tokens, verifying.tokens),
        chunked_prefill=ChunkedPrefill(alone, verifying),
    )


def _composition(scenario: Scenario, context: float, gamma: int, fraction: float) -> Composition | None:
    try:
        return compose(scenario, context, scenario.longest(gamma), fraction)
    except InputError:
        return None
