"""Changes of a question that give better servers than the choice of `advise`. A change is an engine flag, or
a smaller number format of the weights or the cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange, per_gpu, point_text
from perfmodel.answers.advice.decision import Decision, quick_choice
from perfmodel.answers.advice.on_off import seats_of
from perfmodel.answers.advice.one_server import point_speedup
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.advice.smaller_formats import eight_bits, four_bit_checkpoints, may_be_smaller
from perfmodel.answers.advice.ways import smaller_caches
from perfmodel.answers.point.remedies import Changes, switch_text
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.answers.question import defect_warning, known_defects
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError

BETTER_SWITCH = 1.05
"""An engine flag that does not change number formats is named if the servers are at least this many times as
good as the choice.
"""
BETTER_FORMAT = 1.5
"""A smaller format is named if the servers are at least this many times as good as the choice."""
LESS_PRECISE = 1.2
"""A change with a larger loss of precision is only named if it is at least this many times as good as each
named change with a smaller loss.
"""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The best point of the changed question.

    - may_pay: whether the point has a draft whose gain is too close to call.
    """

    changes: Changes
    query: AdviseQuery
    point: PricedPoint
    gain: float
    may_pay: bool = False


def better_changes(
    search: Search, decision: Decision, remedies: Sequence[Remedy]
) -> Iterator[tuple[BetterChange, Alternative]]:
    """At most three changes, in this order: an engine flag, an 8-bit format and a 4-bit format. Each change
    gives much better servers than the choice and than the changes before it.

    - remedies: changes with which the best draft would pay off at its batch, or would fit in memory.
    """
    query = search.query
    switches = (r for r in remedies if "kv_dtype" not in r.changes)
    switched = (_with_remedy(query, decision, remedy) for remedy in switches)
    eight = (_with_format(search, decision, each) for each in _eight_bits(query, decision, remedies))
    four = (_with_format(search, decision, each) for each in four_bit_checkpoints(query))
    before: float | None = None
    for group, enough in ((switched, BETTER_SWITCH), (eight, BETTER_FORMAT), (four, BETTER_FORMAT)):
        found = [changed for changed in group if changed is not None]
        top = max(found, key=lambda changed: changed.gain, default=None)
        if top is not None and _is_named(top.gain, enough, before):
            before = top.gain
            flags = switch_text(top.changes)
            yield change_of(flags, top.query, top.point, top.gain), _alternative(top, decision)


def _is_named(gain: float, enough: float, before: float | None) -> bool:
    """Whether a change is named.

    - gain: its gain over the choice.
    - enough: the smallest gain of this kind of change.
    - before: the gain of the last named change, which loses less precision; None without such a change.
    """
    return gain >= enough and (before is None or gain >= LESS_PRECISE * before)


def _eight_bits(query: AdviseQuery, decision: Decision, remedies: Sequence[Remedy]) -> Iterator[Changes]:
    """The 8-bit formats of weights and cache that the question does not state, and the caches with which a
    draft fits in memory.
    """
    if query.kv_dtype is None:
        caches = [r.changes["kv_dtype"] for r in remedies if "kv_dtype" in r.changes]
        usual = smaller_caches(decision.chosen.candidate)[:1]
        yield from ({"kv_dtype": name} for name in dict.fromkeys((*usual, *caches)))
    if may_be_smaller(query):
        yield {"weights": eight_bits(query)}


def _with_format(search: Search, decision: Decision, changes: Changes) -> _Changed | None:
    """The best point with another format, for the same drafts. The layouts either all divide experts or all
    keep them whole, like the choice. If the question states one batch, they have as many servers as the
    choice, because a batch is that of one server. The result is None if nothing runs and fits in memory.
    """
    query, chosen = search.query, decision.chosen
    divides = chosen.layout.ep > 1
    layouts = [c.layout for c in search.candidates.baselines if (c.layout.ep > 1) == divides]
    if query.states_batch:
        layouts = [layout for layout in layouts if layout.replicas == chosen.layout.replicas]
    changed = replace(query, **changes)
    searched = changed
    if not query.names_drafts:
        drafts = dict.fromkeys(c.asked.draft or "" for c in search.candidates.drafted)
        searched = replace(changed, draft=tuple(drafts))
    try:
        point = quick_choice(Search.of(searched, layouts))
    except InputError:
        return None
    return None if point is None else _Changed(changes, changed, point, point.times(chosen, query))


def _with_remedy(query: AdviseQuery, decision: Decision, remedy: Remedy) -> _Changed | None:
    """The best point with the best draft and a switch; None if the best point has no draft."""
    rival = decision.rival
    if rival is None:
        return None
    changed = replace(query, **as_asked(remedy.changes))
    chosen = decision.chosen.layout
    layouts = [chosen] if rival.layout == chosen else [rival.layout, chosen]
    if query.states_batch:
        layouts = [layout for layout in layouts if layout.replicas == chosen.replicas]
    try:
        allowed = Search.of(changed, layouts).allowed
    except InputError:
        return None
    drafted = [p for p in allowed if p.gamma and _same_draft(p, rival)]
    point = max(drafted, key=lambda p: p.value, default=None)
    if point is None:
        return None
    gain = point.times(decision.chosen, query)
    return _Changed(remedy.changes, changed, point, gain, may_pay=not remedy.surely_pays)


def _same_draft(point: PricedPoint, rival: PricedPoint) -> bool:
    draft, other = point.candidate.asked, rival.candidate.asked
    return (draft.draft, draft.draft_kv) == (other.draft, other.draft_kv)


def as_asked(changes: Changes) -> Changes:
    """Converts changed arguments of one server to arguments of `AdviseQuery`. There, each parallel degree is
    a list of degrees to search.
    """
    listed = ("tp", "dp", "ep", "draft_tp")
    return {name: (value,) if name in listed else value for name, value in changes.items()}


def change_of(
    flags: str, query: AdviseQuery, point: PricedPoint, gain: float, decoding: float = 1.0
) -> BetterChange:
    """The change to a point. The interval of its gain comes from that of the speedup of the draft.

    - query: the changed question.
    - gain: how many times better the servers are than the choice.
    - decoding: the share of their time that the draft can shorten.
    """
    if not point.gamma:
        return BetterChange(flags, None, 0, point.batch, gain)
    speedup, interval = point_speedup(query, point)
    if interval is not None:
        low, high = (gain / (1.0 - decoding + decoding * speedup / bound) for bound in interval)
        interval = low, high
    return BetterChange(flags, point.candidate.scenario.draft.name, point.gamma, point.batch, gain, interval)


def _alternative(changed: _Changed, decision: Decision) -> Alternative:
    """The server with a change. The text states its speed and the known defects that affect its draft."""
    query, point = changed.query, changed.point
    pace = f"{per_gpu(point):,.0f} tokens/s/GPU"
    if query.objective == "latency":
        pace = f"{seconds(point.tpot_s)} per token"
    pays = ", where the draft may pay off" if changed.may_pay else ""
    gain = f"{changed.gain:.2f} times the choice"
    text = f"With {switch_text(changed.changes)}{pays}: {point_text(point)}: {pace}, {gain}"
    seats = seats_of(query, point)
    return Alternative.of(f"{text}{new_defects(query, point, decision.rival)}", query, point, seats)


def new_defects(query: AdviseQuery, point: PricedPoint, before: PricedPoint | None) -> str:
    """The known defects that affect the draft of a point only after a change, in words.

    - query: the changed question.
    - before: the point before the change.
    """
    if not point.gamma:
        return ""
    context = float(query.context)
    met = known_defects(point.candidate.scenario, context, point.gamma)
    old = () if before is None else known_defects(before.candidate.scenario, context, before.gamma)
    return "".join(f" ({defect_warning(defect)})" for defect in met if defect not in old)
