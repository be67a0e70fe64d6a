"""The priced points of `advise` without a load, and the best of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import READING_S, AdviseQuery
from perfmodel.answers.advice.candidates import Candidates, find_candidates
from perfmodel.answers.advice.first_token import within_ttft
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.ranking import PricedPoint, best, choose


@dataclass(frozen=True, slots=True)
class Search:
    """All candidates of a question, priced. ranked: the best allowed point of each candidate, the best
    first; on a tie the earlier candidate first, and baselines before drafts.
    """

    query: AdviseQuery
    candidates: Candidates
    baseline: list[Priced]
    drafted: list[Priced]
    ranked: list[PricedPoint]

    @classmethod
    def of(cls, query: AdviseQuery, layouts: Iterable[Layout] | None = None) -> "Search":
        """Prices the candidates, or only those of some layouts. Raises InputError."""
        given = None if layouts is None else list(layouts)
        candidates = within_ttft(query, find_candidates(query, given))
        baseline, drafted = price(candidates.baselines, candidates.drafted, query)
        points = [best(priced, query) for priced in (*baseline, *drafted)]
        ranked = sorted((p for p in points if p is not None), key=lambda p: -p.value)
        return cls(query, candidates, baseline, drafted, ranked)

    @property
    def allowed(self) -> list[PricedPoint]:
        """The points that may be chosen."""
        return [p for p in self.ranked if self.query.may_choose(p.candidate.runs)]

    @property
    def not_allowed(self) -> list[PricedPoint]:
        """The points that the engine does not run."""
        return [p for p in self.ranked if not self.query.may_choose(p.candidate.runs)]

    @property
    def searched(self) -> list[Priced]:
        """The drafts that may be chosen."""
        return [x for x in self.drafted if self.query.may_choose(x.candidate.runs)]

    @property
    def best_baseline(self) -> PricedPoint | None:
        """The best point without a draft."""
        return choose([p for p in self.allowed if not p.gamma], self.query)

    @property
    def rival(self) -> PricedPoint | None:
        """The best point with a draft that may be chosen."""
        return choose([p for p in self.allowed if p.gamma], self.query)

    @property
    def best(self) -> PricedPoint | None:
        """The better of `best_baseline` and `rival`; the baseline on a tie."""
        baseline, rival = self.best_baseline, self.rival
        if baseline is None or rival is None:
            return rival or baseline
        return rival if rival.value > baseline.value else baseline

    @property
    def readable(self) -> bool:
        """Whether any point is fast enough that people do not wait for the next word."""
        priced = (*self.baseline, *self.searched)
        return any(bool((x.fits & (x.tpot_s <= READING_S)).any()) for x in priced)

    @property
    def points(self) -> int:
        """The number of prices."""
        return sum(priced.tpot_s.size for priced in (*self.baseline, *self.drafted))
