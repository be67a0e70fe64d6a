"""Finds an engine flag with which a draft of unknown acceptance likely gains, if no draft likely gains
without the flag.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.likely import likely_gains, to_be_named, typical_point
from perfmodel.answers.advice.on_off import seats_of
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.point.remedies import Changes, switch_text, switches
from perfmodel.answers.question import resolve_costs
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.errors import InputError


@dataclass(frozen=True, slots=True)
class SwitchToMeasure:
    """A server with an engine flag and a draft whose acceptance should be measured.

    - changes: the changed arguments of the question.
    - query: the question with these changes.
    - gain: the gain of the draft with the flag over the baseline without the flag, with typical acceptance.
    - point: the configuration in which to measure the draft.
    """

    changes: Changes
    query: AdviseQuery
    gain: TypicalGain
    point: PricedPoint

    @property
    def text(self) -> str:
        """The gain in words, such as ``with --attention-backend flashinfer likely 1.6x to 2.2x with a typical
        mtp draft (...)``.
        """
        return f"with {switch_text(self.changes)} likely {self.gain.text}"

    @property
    def alternative(self) -> Alternative:
        """The server on which to measure the draft, as an alternative."""
        text = f"{self.text[0].upper()}{self.text[1:]}; to measure it"
        return Alternative.of(text, self.query, self.point, seats_of(self.query, self.point))


def switch_to_measure(
    query: AdviseQuery, baseline: PricedPoint, likely: tuple[TypicalGain, ...]
) -> SwitchToMeasure | None:
    """The change with the largest gain. Other changes take precedence over changes of the KV format. The
    result is None if a draft gains without a change, or if no change is sufficient for a draft to be named.
    """
    if any(gain.worth_measuring for gain in to_be_named(query, likely)):
        return None
    found = list(_helpful(query, baseline, likely))
    return max(found, key=lambda each: ("kv_dtype" not in each.changes, each.gain.speedups[0]), default=None)


def _helpful(
    query: AdviseQuery, baseline: PricedPoint, likely: tuple[TypicalGain, ...]
) -> Iterator[SwitchToMeasure]:
    """The servers with a flag and a draft that gains even with a low acceptance for its kind."""
    for draft in (gain.draft for gain in to_be_named(query, likely)):
        asked = {"batch": baseline.batch, "draft": draft, "draft_kv": "full", "draft_tp": None}
        point = query.query(**asked, **baseline.layout.arguments())
        for changes in switches(point, resolve_costs(point)):
            if "draft_tp" not in changes:
                helpful = _with(changes, query, baseline, draft)
                if helpful is not None:
                    yield helpful


def _with(changes: Changes, query: AdviseQuery, baseline: PricedPoint, draft: str) -> SwitchToMeasure | None:
    """A server with the changes and the draft. The result is None if the draft gains too little, or if the
    server cannot run or does not fit in memory.
    """
    changed = replace(query, **changes)
    try:
        there = Search.of(changed, [baseline.layout]).best_baseline
    except InputError:
        return None
    if there is None:
        return None
    over = there.times(baseline, query)
    gains = [gain for gain in likely_gains(changed, there) if gain.draft == draft]
    scaled = tuple(replace(g, speedups=(over * g.speedups[0], over * g.speedups[1])) for g in gains)
    if not scaled or not scaled[0].worth_measuring:
        return None
    point = typical_point(changed, there, draft)
    return None if point is None else SwitchToMeasure(changes, changed, scaled[0], point)
