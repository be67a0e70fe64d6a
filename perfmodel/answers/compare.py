"""Speculation or batching at one context, and how both compose."""

from dataclasses import dataclass, fields, replace

from perfmodel.answers import arguments as arg
from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import asks
from perfmodel.answers.batching import BothWays, Composition, both_ways, compose
from perfmodel.answers.query import Options, Query, resolve
from perfmodel.answers.text import devices, tokens
from perfmodel.errors import refuse


@dataclass(frozen=True)
class CompareQuery(Options):
    """A question about m = gamma + 1 tokens of one request against m requests."""

    model: arg.Model
    hardware: arg.Hardware
    context: arg.Context
    gamma: arg.Gamma
    tp: arg.TP = 1
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = None

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        if not isinstance(self.gamma, int) or self.gamma < 1:
            raise refuse("--gamma", None, "a whole number from 1", "auto" if self.gamma is None else self.gamma)


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Answer, BothWays):
    """Speculation or batching at one context (see `BothWays`), and how both compose; composition is None where not
    even one sequence fits.
    """

    query: Query
    composition: Composition | None

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

    Also how both compose in the memory there is. Raises InputError.
    """
    query = question.query(batch=1)
    gamma, context = int(query.gamma or 0), float(query.context)
    scenario = resolve(query)
    found = both_ways(scenario, context, gamma + 1)
    return Comparison(
        query=replace(query, draft=scenario.draft.name, draft_kv=scenario.draft.kv.label()),
        **{f.name: getattr(found, f.name) for f in fields(found)},
        composition=compose(scenario, context, gamma, float(query.memory_fraction)),
    )
