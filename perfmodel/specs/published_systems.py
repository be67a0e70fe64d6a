"""Published figures of speculative systems whose rows leave something unstated, and a published law of step times."""

from functools import cache
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from perfmodel.specs import PACKAGE
from perfmodel.specs.published import AnyRow, HasId, Row, Slug, Speedup, read_rows

Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class ServedRow(Row):
    """A throughput ratio of a serving engine: batch, draft length and accepted length, the context a data set's name.

    positions: conditional acceptance by position, with slashes, of the same study's traces.
    """

    target: Slug
    draft: str = Field(min_length=3)
    task: str
    gamma: PositiveInt
    tokens_per_iteration: float = Field(ge=1, allow_inf_nan=False)
    positions: str
    speedup: Speedup

    @property
    def conditional(self) -> tuple[float, ...]:
        """a_1 ... a_gamma."""
        return tuple(float(part) for part in self.positions.split("/"))

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        gained, survival = 1.0, 1.0
        for rate in self.conditional:
            survival *= rate
            gained += survival
        if len(self.conditional) != self.gamma or abs(gained - self.tokens_per_iteration) > 0.01:
            raise ValueError(
                f"positions: must be gamma rates that gain tokens_per_iteration ({self.tokens_per_iteration:g}), "
                f"given figures gain {gained:.3f}"
            )
        return self


class StepLaw(HasId):
    """A published linear fit of one stack's step times, in seconds.

    A target pass takes target_s + target_token_s a token + target_cached_s a cached token; all `gamma` steps of the
    draft likewise; host_s is spent in every step, speculating or not; an n-gram draft takes `ngram_share` of the pass.
    """

    hardware: Slug
    stack: Slug
    target: Slug
    draft: str
    gamma: PositiveInt
    target_s: Seconds
    target_token_s: Seconds
    target_cached_s: Seconds
    draft_s: Seconds
    draft_token_s: Seconds
    draft_cached_s: Seconds
    host_s: Seconds
    ngram_share: Rate
    notes: str = ""

    def pass_s(self, tokens: float, cached: float) -> float:
        """A target pass of so many tokens over so many cached ones, all sequences together."""
        return self.target_s + self.target_token_s * tokens + self.target_cached_s * cached

    def drafting_s(self, tokens: float, cached: float) -> float:
        """All draft steps of an iteration that drafts so many tokens."""
        return self.draft_s + self.draft_token_s * tokens + self.draft_cached_s * cached

    def speedup(self, row: ServedRow, context: float, match: float) -> float:
        """Speedup of a row at a context. match: share of sequences that an n-gram draft finds anything for."""
        cached = row.batch * context
        plain = self.pass_s(row.batch, cached) + self.host_s
        if row.draft == "ngram":
            verify = self.pass_s(row.batch * (1 + row.gamma * match), cached)
            return row.tokens_per_iteration * plain / (verify * (1 + self.ngram_share) + self.host_s)
        verify = self.pass_s(row.batch * (row.gamma + 1), cached)
        iteration = verify + self.drafting_s(row.batch * row.gamma, cached) + self.host_s
        return row.tokens_per_iteration * plain / iteration


def served() -> tuple[ServedRow, ...]:
    """SpecDecode-Bench's speedups in vLLM."""
    return _read("served", ServedRow)


def step_law() -> StepLaw:
    """The one law there is: vLLM on one H100, Llama-3.1-8B."""
    (law,) = _read("step_laws", StepLaw)
    return law


@cache
def _read(name: str, row_type: type[AnyRow]) -> tuple[AnyRow, ...]:
    return read_rows(PACKAGE / "results" / "published" / f"{name}.csv", row_type)
