"""Explains why no configuration of `advise` fits in memory or meets a bound, and names changes that would
help. A change is another batch, parallel degree, weight format or device.
"""

import math
from dataclasses import dataclass
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Skip
from perfmodel.answers.advice.prices import Priced
from perfmodel.answers.advice.ways import Way, ways_of
from perfmodel.answers.text import seconds
from perfmodel.speculation import Memory, memory_of


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why no configuration is feasible.

    - reason: the reason, as a part of a sentence.
    - ways: the changes of the question that the reason proposes.
    """

    reason: str
    ways: tuple[Way, ...] = ()


def why_infeasible(
    query: AdviseQuery, baseline: list[Priced], drafted: list[Priced], skips: list[Skip], trees: bool = False
) -> Infeasible:
    """Explains why no configuration is feasible.

    - baseline, drafted: the candidates without and with a draft, with their predictions.
    - skips: the skipped candidates. If no layout can run the model, the reason is that of the first skipped
      candidate.
    - trees: whether a tree meets the bound on the time per token.
    """
    if not baseline:
        return Infeasible(f"the model runs in none of the requested layouts ({skips[0].reason})")
    fitting = [x.tpot_s[x.fits].min() for x in (*baseline, *drafted) if x.fits.any()]
    if fitting:
        return _too_slow(query, baseline, min(fitting), trees)
    context = float(query.context)
    fraction = query.memory_fraction
    rooms = [memory_of(x.candidate.scenario, 1.0, context, 0.0, fraction) for x in baseline]
    least = int(min(query.batch or (1,)))
    most = max(int(room.ar_max_batch) for room in rooms)
    if most >= 1:
        ways = ways_of(query, _largest(baseline), math.inf, least)
        sizes = f"the smallest is {least}, but at most {most} fits"
        return Infeasible(f"no requested batch fits: {sizes}{_listed(f'{least} would fit', ways)}", ways)
    shortage = f"nothing fits: {_shortage(query, baseline)}"
    if least > 1 and (ways := ways_of(query, _largest(baseline), math.inf, least)):
        return Infeasible(f"{shortage}{_listed(f'batch {least} would fit', ways)}", ways)
    ways = ways_of(query, _largest(baseline), math.inf)
    return Infeasible(f"{shortage}{_listed('it would fit', ways)}", ways)


def _too_slow(query: AdviseQuery, baseline: list[Priced], lowest_s: float, trees: bool) -> Infeasible:
    """The reason if configurations fit in memory, but none of them meets the bound on the time per token."""
    without = "without a tree " if trees else ""
    lowest = seconds(lowest_s)
    above = f"the lowest TPOT {without}is {lowest}, above the bound of {query.max_tpot_ms:g} ms"
    bound_s = query.max_tpot_s or math.inf
    ways = () if trees else ways_of(query, _largest(baseline), bound_s)
    return Infeasible(f"{above}{_listed('one sequence would keep it', ways)}", ways)


def _largest(baseline: list[Priced]) -> Candidate:
    """The first candidate with the largest servers, because `max` returns the first of equals. The candidates
    are in the order of `searched_layouts`: each searched size comes without groups first (`of_gpus`), and
    stated degrees are in the order of the question.
    """

    def devices(candidate: Candidate) -> int:
        return candidate.layout.server_gpus * candidate.layout.in_turn

    return max((x.candidate for x in baseline), key=devices)


def _shortage(query: AdviseQuery, baseline: list[Priced]) -> str:
    """The memory that weights and one sequence need on a device, and the available memory, in words. The
    layout is the one that needs the least memory per device.
    """
    context = float(query.context)
    rooms = [
        (x.candidate.scenario, memory_of(x.candidate.scenario, 1.0, context, 0.0, query.memory_fraction))
        for x in baseline
    ]
    scenario, room = min(rooms, key=lambda each: _needed_bytes(each[1]))
    cache_share = scenario.account.cache_share(scenario.target_shard)
    needed = (
        f"a device would hold {float(room.weight_bytes) / 1e9:.1f} GB of weights and "
        f"{float(room.kv_bytes) / 1e9:.1f} GB of KV cache for one sequence"
    )
    if cache_share < 1.0 and _needed_bytes(room) <= float(room.available_bytes):
        return f"{needed}, but {_divided_pool(room, cache_share)}"
    return f"{needed}, {_too_little_room(room)}"


def _needed_bytes(room: Memory[Any]) -> float:
    """Bytes of weights and of the caches of one sequence, per device."""
    return float(room.weight_bytes) + float(room.kv_bytes)


def _divided_pool(room: Memory[Any], cache_share: float) -> str:
    """The reason if weights and one sequence together fit, but the engine reserves a part of the pool for
    recurrent states. The caches or the states then do not fit in their part.
    """
    return (
        f"of the {float(room.pool_bytes) / 1e9:.1f} GB that the weights leave {cache_share:.0%} hold caches "
        "and the rest states"
    )


def _too_little_room(room: Memory[Any]) -> str:
    """The reason if weights and one sequence together need more than the available memory. Both sizes have a
    second decimal if they would otherwise look equal.
    """
    sizes = _needed_bytes(room), float(room.available_bytes)
    tenths = [round(size / 1e9, 1) for size in sizes]
    decimals = 2 if tenths[0] == tenths[1] else 1
    total, available = (f"{size / 1e9:.{decimals}f} GB" for size in sizes)
    return f"together {total}, but has room for {available}"


def _listed(would: str, ways: tuple[Way, ...]) -> str:
    """The changes as a clause; empty if there are none."""
    if not ways:
        return ""
    *texts, last = [way.text for way in ways]
    return f"; {would} {', '.join(texts)} or {last}" if texts else f"; {would} {last}"
