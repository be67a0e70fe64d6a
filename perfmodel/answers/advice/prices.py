"""Predicts every candidate of `advise` at all batch sizes and draft lengths at once (*pricing*)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.layouts import Layout
from perfmodel.errors import refuse
from perfmodel.operations import Array, Ints, Mask
from perfmodel.speculation import Memory, Scenario, Workload, memory_of, predict

MAX_PRICES = 2_000_000
"""Largest number of combinations of batch, draft and draft length. This many take about a gigabyte of memory
and ten seconds.
"""


class Group(NamedTuple):
    """A key for candidates. Target passes take the same time for all candidates with the same key.

    - varying_lengths: whether the sequences of a batch verify different numbers of tokens.
    """

    layout: Layout
    varying_lengths: bool


@dataclass(frozen=True, slots=True)
class Priced:
    """The predictions for one candidate, as arrays over ``[batch, gamma]``.

    - batches: the batch sizes of one server.
    - drafted: the draft lengths.
    - gained: the tokens per iteration at each draft length.
    - fits: whether the batch fits in memory.
    - allowed: whether the batch fits and also meets the bound on TPOT.
    """

    candidate: Candidate
    batches: Array
    drafted: Ints
    gained: Array
    tpot_s: Array
    fits: Mask
    allowed: Mask


class Prices(NamedTuple):
    """The predictions for the baselines (`alone`) and for the candidates with a draft (`drafted`)."""

    alone: list[Priced]
    drafted: list[Priced]


def price(baseline: list[Candidate], candidates: list[Candidate], query: AdviseQuery) -> Prices:
    """Predicts the baselines and the candidates with a draft. The target passes are computed once for each
    `Group` of candidates.

    Raises InputError for a question with more than `MAX_PRICES` combinations of batch, draft and draft
    length.
    """
    batches = {c.layout: _batches(c, candidates, query) for c in baseline}
    if any(c.scenario.power_limit_w is not None for c in baseline):
        return _limited_prices(baseline, candidates, batches, query)
    _check_number(baseline, candidates, batches, query)
    verify = _verify_by_group(baseline, candidates, batches, query)
    alone = []
    for c in baseline:
        step = verify[_group(c)][:, :1]
        alone.append(_priced(c, batches[c.layout], np.zeros(1, int), np.ones(1), step, query))
    drafted = [_chains(c, batches[c.layout], query, verify[_group(c)]) for c in candidates]
    return Prices(alone, drafted)


def _limited_prices(
    baseline: list[Candidate], candidates: list[Candidate], batches: dict[Layout, Array], query: AdviseQuery
) -> Prices:
    """The predictions for all candidates on devices with a power limit."""
    alone = [_limited(c, batches[c.layout], query, 0) for c in baseline]
    drafted = []
    for c in candidates:
        longest = c.scenario.longest(query.max_gamma)
        drafted.append(_limited(c, batches[c.layout], query, longest))
    return Prices(alone, drafted)


def _check_number(
    baseline: list[Candidate], candidates: list[Candidate], batches: dict[Layout, Array], query: AdviseQuery
) -> None:
    """Raises InputError if the stated batch sizes give more than `MAX_PRICES` combinations."""
    columns = len(baseline) + sum(c.scenario.longest(query.max_gamma) for c in candidates)
    most = max((sizes.size for sizes in batches.values()), default=0)
    if query.batch is not None and most * columns > MAX_PRICES:
        allowed = f"at most {MAX_PRICES // columns} values with these drafts, such as 1..4096x2"
        raise refuse("--batch", None, allowed, most)


def room(scenario: Scenario, batch: Any, drafted: Any, query: AdviseQuery) -> Memory[Any]:
    """The memory of one server at these batch sizes and numbers of drafted tokens. The two arrays are
    broadcast.
    """
    context = np.asarray(float(query.context))
    return memory_of(scenario, batch, context, drafted, query.memory_fraction)


def _batches(baseline: Candidate, candidates: list[Candidate], query: AdviseQuery) -> Array:
    """The batch sizes of a layout. If the question states none, sizes above `MAX_BATCHES` are only included
    if they fit in memory. The largest size that fits at each draft length is then added.
    """
    sizes = query.batches(baseline.layout)
    if query.batch is not None or sizes[-1] <= MAX_BATCHES:
        return sizes
    most = float(room(baseline.scenario, 1.0, 0.0, query).ar_max_batch)
    full = [np.array([most])]
    for c in candidates:
        if c.layout == baseline.layout:
            lengths = np.arange(1.0, c.scenario.longest(query.max_gamma) + 1)
            full.append(np.ravel(room(c.scenario, 1.0, lengths, query).max_batch))
    fullest = np.concatenate(full)
    fullest = fullest[(fullest >= 1) & (fullest <= sizes[-1])]
    return np.union1d(sizes[sizes <= max(most, MAX_BATCHES)], fullest)


def _group(candidate: Candidate) -> Group:
    return Group(candidate.layout, candidate.scenario.draft.varying_lengths)


def _verify_by_group(
    baseline: list[Candidate], candidates: list[Candidate], batches: dict[Layout, Array], query: AdviseQuery
) -> dict[Group, Array]:
    """The times of target passes in seconds, for each group. Each array has the shape ``[batch, verified
    tokens]`` and includes the longest draft of the group.
    """
    members: dict[Group, Candidate] = {_group(c): c for c in reversed((*baseline, *candidates))}
    deepest = dict.fromkeys(members, 0)
    for c in candidates:
        deepest[_group(c)] = max(deepest[_group(c)], c.scenario.longest(query.max_gamma))
    return {
        group: _verify(c.scenario, batches[c.layout], query, deepest[group]) for group, c in members.items()
    }


def _verify(scenario: Scenario, batches: Array, query: AdviseQuery, deepest: int) -> Array:
    queries = np.arange(1.0, deepest + 2)
    times = scenario.target_pass_s(batches[:, None], float(query.context), queries)
    return np.broadcast_to(times, (batches.size, queries.size))


def _limited(candidate: Candidate, batches: Array, query: AdviseQuery, longest: int) -> Priced:
    """The predictions for one candidate on devices with a power limit, which slows an iteration as a whole.

    - longest: the largest draft length; 0 for a baseline.
    """
    gammas = np.arange(min(longest, 1), longest + 1)
    work = Workload.of(batches[:, None], float(query.context), gammas)
    p = predict(candidate.scenario, work, longest)
    return _priced(candidate, batches, gammas, p.tokens_per_iteration[0], p.tpot_s, query)


def _chains(candidate: Candidate, batches: Array, query: AdviseQuery, verify: Array) -> Priced:
    """The predictions for one candidate with a draft.

    - verify: the times of the target passes in seconds, of shape ``[batch, verified tokens]``.
    """
    s = candidate.scenario
    gammas = np.arange(1, s.longest(query.max_gamma) + 1)
    b = batches[:, None]
    context = np.asarray(float(query.context))
    iteration = gammas * s.draft_token_s(b, context, gammas) + verify[:, gammas] + s.overhead_s(b, context)
    gained = np.cumsum(s.known_acceptance.survival(int(gammas[-1])))[1:]
    return _priced(candidate, batches, gammas, gained, iteration / gained, query)


def _priced(
    candidate: Candidate, batches: Array, drafted: Any, gained: Array, tpot_s: Array, query: AdviseQuery
) -> Priced:
    fits = room(candidate.scenario, batches[:, None], np.asarray(drafted, float), query).fits
    fits = np.broadcast_to(fits, tpot_s.shape)
    bound = query.max_tpot_s
    allowed = fits if bound is None else fits & (tpot_s <= bound)
    return Priced(candidate, batches, drafted, gained, tpot_s, fits, allowed)
