"""Compares trees of drafted tokens with the chains of `advise`. Only tree shapes that the flags of a server
can state are compared.

A shape has SGLang's three numbers: draft steps, candidates per step and verified tokens. The time of a shape
is computed as in ``perfmodel tree --given``, so both commands print the same times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.prices import Priced, room
from perfmodel.answers.advice.ranking import ALIKE, worth
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.question import runs_trees
from perfmodel.answers.question.tree_rates import parse_tree_rates
from perfmodel.errors import InputError, as_names
from perfmodel.operations import Array
from perfmodel.specs import engine_of
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_cost import (
    ServerShape,
    check_draftable,
    iteration_of_shape_s,
    tokens_of_shape,
)

CANDIDATES = (2, 4, 8)
"""Numbers of candidates per step to search. With one candidate, the tree would be a chain."""
VERIFIED = (4, 8, 16, 32, 64)
"""Numbers of verified tokens to search, including the root."""


@dataclass(frozen=True, slots=True)
class TreeDraft:
    """The best tree of one draft, on one server of a layout. No interval is known for the speed of a tree.

    - steps, candidates, verified_tokens: the values of SGLang's flags for the shape of the tree.
    - batch, tpot_s, throughput_tokens_per_s: values of one server.
    - speedup: speedup over the baseline at the same batch and layout.
    - over_choice: how many times better the tree is than the choice of `advise` according to the objective;
      None if nothing else meets the bounds.
    - best_at: the smallest and the largest batch at which a tree is faster than both the baseline and the
      draft's best chain, by more than the share `ALIKE`. None means that there is no such batch.
    - flags: the engine's flags for this tree; None if they are not known.
    """

    draft: str
    draft_kv: str
    draft_tp: int
    layout: str
    steps: int
    candidates: int
    verified_tokens: int
    batch: int
    tokens_per_iteration: float
    tpot_s: float
    throughput_tokens_per_s: float
    speedup: float
    over_choice: float | None
    best_at: tuple[int, int] | None
    acceptance_source: str
    runs_in: str | None
    flags: tuple[str, ...] | None

    @property
    def wins(self) -> bool:
        """Whether the tree is better than the choice by more than the share `ALIKE`, or nothing else meets
        the bounds.
        """
        return self.over_choice is None or self.over_choice > 1.0 + ALIKE

    @property
    def close(self) -> bool:
        """Whether the tree and the choice differ by at most the share `ALIKE`."""
        return self.over_choice is not None and abs(self.over_choice - 1.0) <= ALIKE


@dataclass(frozen=True, slots=True)
class TreeSkip:
    """A draft whose trees were not compared, and the reason."""

    draft: str
    reason: str


@dataclass(frozen=True, slots=True)
class _PricedTrees:
    """The predictions for the tree shapes of one candidate.

    - tokens: the tokens per iteration of each shape.
    - tpot_s, value: arrays over ``[batch, shape]``. A larger value is better according to the objective.
    """

    shapes: list[ServerShape]
    tokens: Array
    tpot_s: Array
    value: Array


def tree_drafts(
    query: AdviseQuery, drafted: Sequence[Priced], choice: float | None
) -> tuple[tuple[TreeDraft, ...], tuple[TreeSkip, ...]]:
    """Two results: the best tree of each draft with tree rates (the best first), and the drafts for which no
    tree is possible.

    - drafted: the predictions for the drafts as chains.
    - choice: the value of the objective for the choice; None if there is no choice.

    Raises InputError for text that is not a list of rates.
    """
    best_by_draft: dict[str, tuple[float, TreeDraft]] = {}
    skips: list[TreeSkip] = []
    for chains in drafted:
        if chains.candidate.tree_rates is None:
            continue
        acceptance = parse_tree_rates(chains.candidate.tree_rates, "--tree-rate")
        name = chains.candidate.scenario.draft.name
        try:
            priced = _price(query, chains, acceptance)
        except InputError as error:
            skips.append(TreeSkip(name, as_names(error.as_flags)))
            continue
        if priced is None:
            skips.append(TreeSkip(name, "no shape fits, or meets the bound on the time per token"))
            continue
        value, best = _best(query, chains, priced, choice, acceptance.source)
        if name not in best_by_draft or value > best_by_draft[name][0]:
            best_by_draft[name] = (value, best)
    ranked = sorted(best_by_draft.values(), key=lambda pair: -pair[0])
    return tuple(best for _, best in ranked), tuple(dict.fromkeys(skips))


def shapes_to_search(steps: int) -> Iterator[ServerShape]:
    """Every shape with at most `steps` steps that is worth a comparison. Such a shape proposes at least as
    many tokens as it verifies, and verifies more than a chain.
    """
    for count in range(1, steps + 1):
        for candidates in CANDIDATES:
            for verified in VERIFIED:
                shape = ServerShape(count, candidates, verified)
                if count + 1 < verified <= shape.proposed:
                    yield shape


def _price(query: AdviseQuery, chains: Priced, acceptance: TreeAcceptance) -> _PricedTrees | None:
    """The shapes of one candidate; None if none is allowed. Raises InputError if its engine or its draft has
    no trees.
    """
    candidate = chains.candidate
    _check_runs(query, candidate)
    scenario = candidate.scenario
    steps = int(chains.drafted[-1])
    check_draftable(scenario, steps + 1)
    shapes = list(shapes_to_search(steps))
    if not shapes:
        return None
    tokens = np.array([tokens_of_shape(acceptance, shape) for shape in shapes])
    context = float(query.context)
    iteration_s = [iteration_of_shape_s(scenario, chains.batches, context, shape) for shape in shapes]
    tpot_s = np.stack(np.broadcast_arrays(*iteration_s), axis=-1) / tokens
    verified = np.array([float(shape.verified) for shape in shapes])
    fits = room(scenario, chains.batches[:, None], verified - 1.0, query).fits
    allowed = np.broadcast_to(fits, tpot_s.shape)
    if query.max_tpot_s is not None:
        allowed = allowed & (tpot_s <= query.max_tpot_s)
    if not allowed.any():
        return None
    value = np.where(allowed, worth(query, chains.batches[:, None], tpot_s, candidate.layout), -np.inf)
    return _PricedTrees(shapes, tokens, tpot_s, value)


def _check_runs(query: AdviseQuery, candidate: Candidate) -> None:
    """Raises InputError if the engine runs no trees of this draft, unless the question allows any draft."""
    scenario = candidate.scenario
    runs = runs_trees(engine_of(scenario.machine.calibration), scenario.draft, query.engine)
    if not query.may_choose(runs):
        assert runs is not None  # else it may be chosen
        raise InputError(f"trees of {scenario.draft.name}: {runs.text}")


def _best(
    query: AdviseQuery, chains: Priced, priced: _PricedTrees, choice: float | None, source: str
) -> tuple[float, TreeDraft]:
    """The value of the objective for the best shape and batch, and the tree of this shape."""
    candidate = chains.candidate
    scenario = candidate.scenario
    row, column = divmod(int(np.argmax(priced.value)), len(priced.shapes))
    shape = priced.shapes[column]
    batch = int(chains.batches[row])
    tpot_s = float(priced.tpot_s[row, column])
    value = float(priced.value[row, column])
    engine = engine_of(scenario.machine.calibration)
    runs = runs_trees(engine, scenario.draft, query.engine)
    server = servers().get(engine or "")
    flags = None
    if server is not None:
        flags = server.tree_flags(shape.steps, shape.candidates, shape.verified)
    baseline_s = float(scenario.target_pass_s(float(batch), float(query.context)))
    runs_in = None if runs is None else runs.text
    over_choice = _times(value, choice, query)
    best_at = _best_at(query, chains, priced)
    tree = TreeDraft(
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        draft_tp=scenario.draft.tensor_parallel,
        layout=candidate.layout.label(),
        steps=shape.steps,
        candidates=shape.candidates,
        verified_tokens=shape.verified,
        batch=batch,
        tokens_per_iteration=float(priced.tokens[column]),
        tpot_s=tpot_s,
        throughput_tokens_per_s=batch / tpot_s,
        speedup=baseline_s / tpot_s,
        over_choice=over_choice,
        best_at=best_at,
        acceptance_source=source,
        runs_in=runs_in,
        flags=flags,
    )
    return value, tree


def _times(value: float, choice: float | None, query: AdviseQuery) -> float | None:
    """How many times better a value is than that of the choice; None if there is no choice."""
    if choice is None:
        return None
    return value / choice if query.objective == "throughput" else choice / value


def _best_at(query: AdviseQuery, chains: Priced, priced: _PricedTrees) -> tuple[int, int] | None:
    """The smallest and the largest batch at which the best shape is faster than both the best chain and the
    baseline.
    """
    trees_s = np.where(np.isfinite(priced.value), priced.tpot_s, np.inf).min(axis=1)
    chains_s = np.where(chains.allowed, chains.tpot_s, np.inf).min(axis=1)
    baseline_s = np.ravel(chains.candidate.scenario.target_pass_s(chains.batches, float(query.context)))
    wins = trees_s * (1.0 + ALIKE) < np.minimum(chains_s, baseline_s)
    if not wins.any():
        return None
    batches = chains.batches[wins]
    return int(batches[0]), int(batches[-1])
