"""Two levels of drafting (TriForce): a small model drafts for the target with a sparse cache, whose tokens
the full target verifies.

Inner rounds of gamma_1 small-model tokens, each verified by the target over its sparse cache, run until m >=
gamma_2 tokens are drafted, so gamma_2 <= m <= gamma_2 + gamma_1. Then the target with the full cache verifies
m + 1 tokens.

    speedup = E[Omega(m, alpha_2)] T_T / (E[rounds] T_round + E[T_V(m)] + overhead)
    T_round = gamma_1 T_small + T_sparse(gamma_1 + 1) + time of an iteration outside its passes

E[rounds] and the distribution of m come from the renewal recursion; ceil(gamma_2 / Omega(gamma_1, alpha_1))
would be biased. Sun et al. 2024, arXiv 2404.11912.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import Memory, memory_of
from perfmodel.speculation.iteration import check_draft_length
from perfmodel.speculation.scenario import Scenario

MAX_GAMMA = 256
DEFAULT_GAMMA_1, DEFAULT_GAMMA_2 = 6, 12


@dataclass(frozen=True, slots=True)
class Rounds:
    """Inner rounds until gamma_2 tokens are drafted: their expected number, and P(m) for m from gamma_2 to
    gamma_2 + gamma_1.
    """

    expected: float
    drafted: Array


def inner_rounds(inner: Acceptance, gamma_1: int, gamma_2: int) -> Rounds:
    """The renewal recursion. Raises InputError for gammas outside 1 ... 256 or beyond the known
    acceptance.
    """
    for flag, value in (("--gamma-1", gamma_1), ("--gamma-2", gamma_2)):
        if not 1 <= value <= MAX_GAMMA:
            raise refuse(flag, None, f"a whole number from 1 to {MAX_GAMMA}", value)
    _check_known(inner, gamma_1, "--gamma-1")
    survival = inner.survival(gamma_1)
    # P(a round gains l) for l = 1 ... gamma_1 + 1
    gain = survival - np.append(survival[1:], 0.0)
    visits = np.zeros(gamma_2)
    visits[0] = 1.0
    drafted = np.zeros(gamma_1 + 1)
    for have in range(gamma_2):
        for tokens, probability in enumerate(gain, 1):
            after = have + tokens
            if after < gamma_2:
                visits[after] += visits[have] * probability
            else:
                drafted[after - gamma_2] += visits[have] * probability
    return Rounds(float(visits.sum()), drafted)


@dataclass(frozen=True, slots=True)
class TwoLevels:
    """One iteration of both levels over ``[batch, context]``; seconds are calibrated, of the whole group.

    draft_s: all inner rounds. verify_s: the expected full-cache verification. `tokens_per_iteration` is
    E[Omega(m)].
    """

    gamma_1: int
    gamma_2: int
    rounds: float
    drafted: float
    tokens_per_iteration: float
    target_s: Floats
    draft_s: Floats
    verify_s: Floats
    overhead_s: Floats

    @property
    def iteration_s(self) -> Floats:
        """Time of one whole iteration."""
        return self.draft_s + self.verify_s + self.overhead_s

    @property
    def speedup(self) -> Floats:
        """Speedup over the baseline at the same batch."""
        return self.tokens_per_iteration * self.target_s / self.iteration_s


def predict_two_levels(
    small: Scenario, sparse: Scenario, batch: Floats, context: Floats, gamma_1: int, gamma_2: int
) -> TwoLevels:
    """Predicts two levels of drafting.

    small: the small model as draft, with its acceptance by the sparse target. sparse: the target's
    self-draft, with its acceptance by the full target. Both scenarios have the same target and machine. The
    overhead includes the rebuild of the sparse cache per iteration. Raises InputError if the scenarios differ
    in target or machine, if the middle is not a self-draft, or if a draft is longer than the small model
    makes or an acceptance covers.
    """
    if (
        small.target != sparse.target
        or small.machine != sparse.machine
        or small.precision != sparse.precision
    ):
        raise InputError("hierarchy: both levels must have the same target, device and precision")
    if not sparse.draft.views_target_cache or float(sparse.draft.passes(1.0)) != 1.0:
        raise InputError("hierarchy: the middle level must be a self-draft with a sparse cache")
    check_draft_length(small.draft, gamma_1, "--gamma-1")
    found = inner_rounds(small.acceptance, gamma_1, gamma_2)
    _check_known(sparse.acceptance, gamma_1 + gamma_2, "--gamma-1 and --gamma-2 in sum")
    lengths = np.arange(gamma_2, gamma_2 + gamma_1 + 1)
    gained = sparse.acceptance.tokens_per_iteration(lengths)
    drafted = float(gamma_1)
    drafting = small.draft.passes(drafted) * small.draft_pass_s(batch, context, small.draft.query(drafted))
    each = drafting + sparse.draft_pass_s(batch, context, gamma_1 + 1.0) + sparse.end_s(batch)
    verify = [
        probability * sparse.target_pass_s(batch, context, length + 1.0)
        for length, probability in zip(lengths, found.drafted, strict=True)
    ]
    return TwoLevels(
        gamma_1=gamma_1,
        gamma_2=gamma_2,
        rounds=found.expected,
        drafted=float(found.drafted @ lengths),
        tokens_per_iteration=float(gained @ found.drafted),
        target_s=sparse.target_pass_s(batch, context),
        draft_s=found.expected * each,
        verify_s=sum(verify, start=0.0),
        overhead_s=sparse.overhead_s(batch, context),
    )


def best_two_levels(
    small: Scenario,
    sparse: Scenario,
    batch: float,
    context: float,
    gammas_1: Sequence[int] | None,
    gammas_2: Sequence[int] | None,
) -> TwoLevels:
    """The fastest pair of the given lengths; on a tie the shorter ones. Raises InputError as
    `predict_two_levels` does.

    None tries 1 ... `DEFAULT_GAMMA_1` and 1 ... `DEFAULT_GAMMA_2`, as far as the small draft and the
    acceptances allow.
    """
    pairs = _pairs(small, sparse, gammas_1, gammas_2)
    return max(
        (predict_two_levels(small, sparse, batch, context, *pair) for pair in pairs),
        key=lambda p: float(p.speedup),
    )


def memory_of_both(
    small: Scenario, sparse: Scenario, batch: float, context: float, drafted: int, fraction: float
) -> Memory[Floats]:
    """`capacity.memory_of` with both drafts. drafted: the most tokens that one iteration drafts."""
    middle, inner = (memory_of(level, batch, context, drafted, fraction) for level in (sparse, small))
    weights = middle.draft_weight_bytes + inner.draft_weight_bytes
    draft_kv = middle.draft_kv_bytes + inner.draft_kv_bytes
    spare, kv = middle.available_bytes - middle.weight_bytes - weights, middle.kv_bytes + draft_kv
    return replace(
        middle,
        draft_weight_bytes=weights,
        draft_kv_bytes=draft_kv,
        fits=np.less_equal(kv, spare),
        max_batch=np.floor(batch * np.maximum(spare, 0.0) / kv),
    )


def _pairs(
    small: Scenario, sparse: Scenario, gammas_1: Sequence[int] | None, gammas_2: Sequence[int] | None
) -> list[tuple[int, int]]:
    """Pairs of lengths to try; defaults stay within the known acceptance, given lengths need not."""
    ones = gammas_1 or range(1, small.longest(DEFAULT_GAMMA_1) + 1)
    pairs = list(product(ones, gammas_2 or range(1, DEFAULT_GAMMA_2 + 1)))
    known = sparse.acceptance.max_gamma
    if known is None or (gammas_1 and gammas_2):
        return pairs
    return [pair for pair in pairs if sum(pair) <= known] or pairs


def _check_known(acceptance: Acceptance, gamma: int, flag: str) -> None:
    known = acceptance.max_gamma
    if known is not None and gamma > known:
        raise refuse(
            flag, None, f"at most {known}, the positions that were measured ({acceptance.source})", gamma
        )
