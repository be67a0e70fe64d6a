"""Drafting on two levels (TriForce). A small model drafts for the *middle*, which is the target with a sparse
cache. The target with the full cache then verifies the tokens that the middle accepted or added.

An inner round drafts gamma_1 tokens with the small model and verifies them with the middle. Rounds run until
at least gamma_2 tokens are drafted. The number m of drafted tokens is therefore between gamma_2 and gamma_2 +
gamma_1. Then the target verifies m + 1 tokens.

    speedup = E[Omega(m, alpha_2)] T_T / (E[rounds] T_round + E[T_V(m)] + overhead)

    T_round = gamma_1 T_small + T_middle(gamma_1 + 1) + time of an iteration outside its passes

E[rounds] and the distribution of m are computed with a renewal recursion. The simpler estimate ceil(gamma_2 /
Omega(gamma_1, alpha_1)) of E[rounds] is biased. Source: Sun et al. 2024, arXiv 2404.11912.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import Memory, draft_stored_bytes, memory_of
from perfmodel.speculation.iteration import check_draft_length
from perfmodel.speculation.pass_formulas import end_s
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import MAX_GAMMA

DEFAULT_GAMMA_1 = 6
DEFAULT_GAMMA_2 = 12
"""The largest lengths that `best_two_levels` tries by default."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """The inner rounds that are needed until at least gamma_2 tokens are drafted.

    - expected: mean number of rounds.
    - drafted: probability of each number m of drafted tokens from gamma_2 to gamma_2 + gamma_1, ``[gamma_1 +
      1]``.
    """

    expected: float
    drafted: Array


def inner_rounds(inner: Acceptance, gamma_1: int, gamma_2: int) -> Rounds:
    """Computes the inner rounds by a renewal recursion over the number of drafted tokens.

    Raises InputError if a length is below 1 or above `MAX_GAMMA`, or if its acceptance is unknown.
    """
    for flag, length in (("--gamma-1", gamma_1), ("--gamma-2", gamma_2)):
        if not 1 <= length <= MAX_GAMMA:
            raise refuse(flag, None, f"a whole number from 1 to {MAX_GAMMA}", length)
    survival = inner.survival(gamma_1)
    gain = survival - np.append(survival[1:], 0.0)  # P(a round gains 1, ..., gamma_1 + 1 tokens)
    visits = np.zeros(gamma_2)  # P(some round starts at this number of tokens)
    visits[0] = 1.0
    drafted = np.zeros(gamma_1 + 1)
    for before in range(gamma_2):
        for tokens, probability in enumerate(gain, 1):
            after = before + tokens
            if after < gamma_2:
                visits[after] += visits[before] * probability
            else:
                drafted[after - gamma_2] += visits[before] * probability
    return Rounds(float(visits.sum()), drafted)


@dataclass(frozen=True, slots=True)
class TwoLevels:
    """The mean iteration of two-level drafting. Times are calibrated seconds.

    rounds, drafted and tokens_per_iteration are means over iterations.

    - draft_s: time of all inner rounds.
    - verify_s: mean time of the verification over the full cache.
    """

    gamma_1: int
    gamma_2: int
    rounds: float
    drafted: float
    tokens_per_iteration: float
    target_s: float
    draft_s: float
    verify_s: float
    overhead_s: float

    @property
    def tpot_s(self) -> float:
        """Seconds per output token of one sequence."""
        return (self.draft_s + self.verify_s + self.overhead_s) / self.tokens_per_iteration

    @property
    def speedup(self) -> float:
        """Speedup over the baseline at the same batch."""
        return self.target_s / self.tpot_s


def predict_two_levels(
    small: Scenario, middle: Scenario, batch: float, context: float, gamma_1: int, gamma_2: int
) -> TwoLevels:
    """Predicts two-level drafting at one point.

    - small: the small model as draft, with its acceptance by the middle.
    - middle: the target's self-draft with a sparse cache, with its acceptance by the target.

    `small` and `middle` must have the same target and machine. The overhead includes one rebuild of the
    sparse cache per iteration.

    Raises InputError if the middle is not a self-draft. It also raises if a draft is longer than the small
    model allows, or if its acceptance is unknown.
    """
    if middle.draft.kind != "self":
        raise InputError("hierarchy: the middle must be the target itself with a sparse cache")
    check_draft_length(small.draft, gamma_1)
    rounds = inner_rounds(small.known_acceptance, gamma_1, gamma_2)
    lengths = np.arange(gamma_2, gamma_2 + gamma_1 + 1)
    gained = middle.known_acceptance.tokens_per_iteration(lengths)
    drafting = gamma_1 * float(small.draft_token_s(batch, context, np.array(gamma_1)))
    checking = float(middle.draft_pass_s(batch, context, gamma_1 + 1.0))
    round_s = drafting + checking + float(end_s(middle, batch))
    verify = [float(middle.target_pass_s(batch, context, length + 1.0)) for length in lengths]
    return TwoLevels(
        gamma_1=gamma_1,
        gamma_2=gamma_2,
        rounds=rounds.expected,
        drafted=float(rounds.drafted @ lengths),
        tokens_per_iteration=float(rounds.drafted @ gained),
        target_s=float(middle.target_pass_s(batch, context)),
        draft_s=rounds.expected * round_s,
        verify_s=float(rounds.drafted @ np.array(verify)),
        overhead_s=float(middle.overhead_s(batch, context)),
    )


def best_two_levels(
    small: Scenario,
    middle: Scenario,
    batch: float,
    context: float,
    gammas_1: Sequence[int] | None,
    gammas_2: Sequence[int] | None,
) -> TwoLevels:
    """Two-level drafting with the fastest pair of the given lengths. On a tie, the pair with the shorter
    lengths is chosen.

    None means all lengths up to `DEFAULT_GAMMA_1` and `DEFAULT_GAMMA_2` that the draft and the acceptances
    allow. Raises InputError as `predict_two_levels` does.
    """
    ones = gammas_1 or range(1, small.longest(DEFAULT_GAMMA_1) + 1)
    twos = gammas_2 or range(1, DEFAULT_GAMMA_2 + 1)
    pairs = list(product(ones, twos))
    known = middle.known_acceptance.max_gamma
    if known is not None and not (gammas_1 and gammas_2):
        pairs = [pair for pair in pairs if sum(pair) <= known] or pairs
    predictions = [predict_two_levels(small, middle, batch, context, *pair) for pair in pairs]
    return max(predictions, key=lambda levels: levels.speedup)


def memory_of_both(
    small: Scenario, middle: Scenario, batch: float, context: float, drafted: int, fraction: float | None
) -> Memory[float]:
    """The memory that the target and both drafts need (see `memory_of`).

    - drafted: largest number of tokens that one iteration drafts.
    """
    alone = memory_of(small, batch, context, drafted, fraction).single()
    target = small.target_shard
    sequences = float(np.asarray(target.sequences(batch)))
    middle_kv = float(draft_stored_bytes(middle.draft_shard, middle.draft, np.asarray(context)))
    each = alone.sequence_bytes
    if small.account.draft_inside:
        each += middle_kv
    return replace(
        alone,
        draft_kv_bytes=alone.draft_kv_bytes + sequences * middle_kv,
        sequence_bytes=each,
        fits=sequences * each <= alone.pool_bytes,
        max_batch=int(target.groups * (max(alone.pool_bytes, 0.0) // each)),
    )
