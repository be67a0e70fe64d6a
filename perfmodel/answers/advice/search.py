"""Searches for the best point of `advise` without a load."""

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
    """All candidates of a question with their predictions.

    - ranked: the best point of each candidate that meets the bounds. The best point comes first. Equally good
      points are in the order of the candidates, with baselines before drafts.
    """

    query: AdviseQuery
    candidates: Candidates
    baseline: list[Priced]
    drafted: list[Priced]
    ranked: list[PricedPoint]

    @classmethod
    def of(cls, query: AdviseQuery, layouts: Iterable[Layout] | None = None) -> "Search":
        """Finds and predicts the candidates.

        - layouts: the layouts to search; None means all layouts that the question allows.

        Raises InputError for wrong input.
        """
        given = None if layouts is None else list(layouts)
        candidates = within_ttft(query, find_candidates(query, given))
        baseline, drafted = price(candidates.baselines, candidates.drafted, query)
        points = [best(priced, query) for priced in (*baseline, *drafted)]
        ranked = sorted((p for p in points if p is not None), key=lambda p: -p.value)
        return cls(query, candidates, baseline, drafted, ranked)

    @property
    def allowed(self) -> list[PricedPoint]:
        """The points that may be recommended: baselines, and drafts that the engine runs."""
        return [p for p in self.ranked if self.query.may_choose(p.candidate.runs)]

    @property
    def not_allowed(self) -> list[PricedPoint]:
        """The points with a draft that the engine does not run."""
        return [p for p in self.ranked if not self.query.may_choose(p.candidate.runs)]

    @property
    def searched(self) -> list[Priced]:
        """The candidates whose draft may be recommended."""
        return [x for x in self.drafted if self.query.may_choose(x.candidate.runs)]

    @property
    def best_baseline(self) -> PricedPoint | None:
        """The best point without a draft according to `choose`."""
        return choose([p for p in self.allowed if not p.gamma], self.query)

    @property
    def rival(self) -> PricedPoint | None:
        """The best point with a draft that may be recommended, according to `choose`."""
        return choose([p for p in self.allowed if p.gamma], self.query)

    @property
    def best(self) -> PricedPoint | None:
        """The better one of `best_baseline` and `rival`. On a tie, the result is the baseline."""
        baseline, rival = self.best_baseline, self.rival
        if baseline is None or rival is None:
            return rival or baseline
        return rival if rival.value > baseline.value else baseline

    @property
    def readable(self) -> bool:
        """Whether at least one point that fits in memory has a TPOT of at most `READING_S`."""
        priced = (*self.baseline, *self.searched)
        return any(bool((x.fits & (x.tpot_s <= READING_S)).any()) for x in priced)

    @property
    def points(self) -> int:
        """The number of combinations of candidate, batch and draft length that were predicted."""
        return sum(priced.tpot_s.size for priced in (*self.baseline, *self.drafted))
