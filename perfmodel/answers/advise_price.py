"""Pricing what `advise` searches: every candidate over all batches and draft lengths (or trees) at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.advise_space import Head, Request
from perfmodel.ops import Array
from perfmodel.speculation import capacity
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.tree_cost import growth, surface

TREE_SIZES = np.array([*range(1, 64), *range(64, 256, 8), *range(256, 513, 32)])
"""Nodes of the trees searched, the root included: every size to 64, then steps of an eighth of it or less."""
TREE_LEVELS = 24
"""Most levels of the trees searched, the root's included; `perfmodel tree` looks at every size, and further."""


@dataclass(frozen=True, slots=True)
class Priced:
    """One head over ``[batch, column]``; a column is a draft length, or a tree's size and levels.

    `drafted` and `levels` are per column: tokens drafted, and a tree's levels (0 for a chain). `gained` are tokens per
    iteration. `fits` says that memory suffices, `allowed` also that the bound on time per token holds.
    """

    head: Head
    drafted: NDArray[np.int64]
    levels: NDArray[np.int64]
    gained: Array
    tpot_s: Array
    fits: NDArray[np.bool_]
    allowed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pick:
    """A point of a head and its value by the objective, larger is better."""

    head: Head
    batch: int
    gamma: int
    levels: int
    gained: float
    tpot_s: float
    value: float


def price_all(plain: list[Head], candidates: list[Head], batches: Array, request: Request) -> tuple[list[Priced], ...]:
    """Plain decoding and candidates. Target passes are the same for all drafts of a degree and counted once."""
    deepest = max((longest(h, request) for h in candidates if h.tree is None), default=0)
    verify = {h.tp: _verify(h.scenario, batches, request.context, deepest) for h in plain}
    alone = [
        _allow(h, np.zeros(1, int), np.zeros(1, int), np.ones(1), verify[h.tp][:, :1], batches, request) for h in plain
    ]
    drafted = [
        _tree(h, batches, request) if h.tree is not None else _chain(h, batches, request, verify[h.tp])
        for h in candidates
    ]
    return alone, drafted


def longest(head: Head, request: Request) -> int:
    """Longest chain that the request, the acceptance and the draft allow."""
    known = (request.max_gamma, head.scenario.acceptance.max_gamma, head.scenario.draft.max_gamma)
    return min(end for end in known if end is not None)


def fits(scenario: Scenario, batch: Any, drafted: Any, request: Request) -> NDArray[np.bool_]:
    """Whether memory suffices, broadcast over batches and drafted tokens."""
    room = capacity.memory_of(scenario, batch, np.asarray(request.context), drafted, request.memory_fraction)
    return room.fits


def _verify(scenario: Scenario, batches: Array, context: float, deepest: int) -> Array:
    queries = np.arange(1.0, deepest + 2)
    return np.broadcast_to(scenario.target_pass_s(batches[:, None], context, queries), (batches.size, queries.size))


def _chain(head: Head, batches: Array, request: Request, verify: Array) -> Priced:
    s, gammas = head.scenario, np.arange(1, longest(head, request) + 1)
    b, context = batches[:, None], np.asarray(request.context)
    iteration = gammas * s.draft_token_s(b, context, gammas) + verify[:, gammas] + s.overhead_s(b, context)
    gained = np.cumsum(s.acceptance.survival(int(gammas[-1])))[1:]
    return _allow(head, gammas, np.zeros_like(gammas), gained, iteration / gained, batches, request)


def _tree(head: Head, batches: Array, request: Request) -> Priced:
    """Every size of `TREE_SIZES` and every number of levels from 2 on."""
    assert head.tree is not None
    ends = (TREE_LEVELS, head.tree.max_levels, (head.scenario.draft.max_gamma or TREE_LEVELS) + 1)
    table = growth(head.tree, int(TREE_SIZES[-1]), min(ends))
    _, total, _ = surface(head.scenario, batches, request.context, table, TREE_SIZES)
    levels, sizes = np.meshgrid(np.arange(2, table.levels + 1), TREE_SIZES[1:], indexing="ij")
    gained = table.tokens[1:, TREE_SIZES[1:] - 1].ravel()
    tpot = total[:, 1:, 1:].reshape(batches.size, -1) / gained
    return _allow(head, sizes.ravel() - 1, levels.ravel(), gained, tpot, batches, request)


def _allow(
    head: Head, drafted: Any, levels: Any, gained: Array, tpot_s: Array, batches: Array, request: Request
) -> Priced:
    room = fits(head.scenario, batches[:, None], np.asarray(drafted, float), request)
    room = np.broadcast_to(room, tpot_s.shape)
    allowed = room if request.max_tpot_s is None else room & (tpot_s <= request.max_tpot_s)
    return Priced(head, drafted, levels, gained, tpot_s, room, allowed)


def _value(request: Request, batch: Array, tpot_s: Array, tp: int) -> Array:
    """What the objective maximises: tokens/s of the group, minus the time per token, or minus its price."""
    if request.objective == "latency":
        return -tpot_s
    if request.objective == "throughput":
        return batch / tpot_s
    assert request.price_per_gpu_hour is not None
    return -(request.price_per_gpu_hour * tp / 3600.0 * 1e6) * tpot_s / batch


def best(priced: Priced, batches: Array, request: Request) -> Pick | None:
    """The best point of one head, the smallest batch and draft on a tie; None where none is allowed."""
    if not priced.allowed.any():
        return None
    value = np.where(priced.allowed, _value(request, batches[:, None], priced.tpot_s, priced.head.tp), -np.inf)
    i, j = divmod(int(np.argmax(value)), value.shape[1])
    return Pick(
        head=priced.head,
        batch=int(batches[i]),
        gamma=int(priced.drafted[j]),
        levels=int(priced.levels[j]),
        gained=float(priced.gained[j]),
        tpot_s=float(priced.tpot_s[i, j]),
        value=float(value[i, j]),
    )


def front(priced: list[Priced], batches: Array) -> list[dict[str, Any]]:
    """Points of larger throughput at larger time per token, none of them beaten in both; within memory only."""
    if not any(x.fits.any() for x in priced):
        return []
    speed = np.concatenate([np.where(x.fits, x.tpot_s, np.inf).ravel() for x in priced])
    shapes = [x.tpot_s.shape for x in priced]
    rate = np.concatenate([np.broadcast_to(batches[:, None], shape).ravel() for shape in shapes]) / speed
    order = np.argsort(speed, kind="stable")
    top = np.maximum.accumulate(rate[order])
    kept = order[np.concatenate(([True], top[1:] > top[:-1] * (1 + 1e-9))) & np.isfinite(speed[order])]
    starts = np.cumsum([0, *(x.tpot_s.size for x in priced)])
    points = []
    for at in kept:
        which = int(np.searchsorted(starts, at, "right")) - 1
        i, j = divmod(int(at - starts[which]), shapes[which][1])
        found = priced[which]
        gamma, draft = int(found.drafted[j]), found.head.scenario.draft
        points.append(
            {
                "tpot_s": float(speed[at]),
                "throughput_tokens_per_s": float(rate[at]),
                "batch": int(batches[i]),
                "gamma": gamma,
                "tree_levels": int(found.levels[j]) or None,
                "tp": found.head.tp,
                "draft": draft.name if gamma else None,
                "draft_kv": draft.kv.label() if gamma else None,
            }
        )
    return points
