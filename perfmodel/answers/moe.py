"""What mixtures of experts do to speculation: verification touches more experts until all of them are read anyway.

At small batches each verified token drags in experts of its own (target efficiency T_T(1)/T_T(gamma + 1) falls); once
plain decoding touches all experts, extra tokens are free until the experts turn compute-bound: speedup rises with the
batch, peaks, and falls. Huang et al. 2025 (MoESD), arXiv 2505.19645. Tokens of one sequence may route alike:
`routing_independence` r counts the gamma + 1 tokens of a sequence as 1 + r gamma independent ones.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.costs import Experts
from perfmodel.errors import InputError, refuse
from perfmodel.ops import Array, Floats
from perfmodel.speculation.chain import check_draft_length, speedups
from perfmodel.speculation.scenario import Scenario

BISECTIONS = 60
MAX_BATCH = 2**20


def experts_of(scenario: Scenario) -> Experts:
    """The target's routed experts. Raises InputError for a dense model."""
    if scenario.target_shard.experts is None:
        raise InputError(f"--model: {scenario.target.name} has no routed experts")
    return scenario.target_shard.experts


def touched(experts: Experts, batch: Floats, gamma: Floats, independence: float = 1.0) -> Floats:
    """Expected distinct experts that a verification of gamma + 1 tokens per sequence reads in one layer."""
    _check_independence(independence)
    return experts.touched(batch * (1.0 + independence * np.asarray(gamma)))


def independence_of(experts: Experts, batch: float, gamma: float, reduction: float) -> float:
    """The r at which verification touches `reduction` (a share) fewer experts than independent routing would.

    Raises InputError for a batch outside 1 ... `MAX_BATCH`, or a reduction that not even tokens routed all alike would
    reach.
    """
    if not 1 <= batch <= MAX_BATCH:
        raise refuse("--fewer-experts-at", None, "a whole number from 1 to 2^20", batch)
    free = float(touched(experts, batch, gamma))
    most = 1.0 - float(touched(experts, batch, gamma, 0.0)) / free
    if not 0 <= reduction <= most:
        raise refuse(
            "--fewer-experts", None, f"a share from 0 to {most:.3f} (all tokens of a sequence alike)", reduction
        )
    low, high, wanted = 0.0, 1.0, free * (1.0 - reduction)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if touched(experts, batch, gamma, middle) < wanted else (low, middle)
    return (low + high) / 2


def target_efficiency(scenario: Scenario, batch: Floats, context: Floats, gamma: Floats) -> Floats:
    """T_T(B, 1) / T_T(B, gamma + 1): the speedup left if drafting were free and nothing but the bonus token counted."""
    return scenario.target_pass_s(batch, context) / scenario.target_pass_s(batch, context, np.asarray(gamma) + 1.0)


@dataclass(frozen=True, slots=True)
class Peak:
    """Where speculation pays most over a range of batches: the batch, the speedup there, and the round's cost.

    round_cost is iteration / T_T there; efficiency the target efficiency. `speedups` are over all `batches`.
    """

    batch: int
    speedup: float
    round_cost: float
    efficiency: float
    batches: NDArray[np.int64]
    speedups: Array


def peak(scenario: Scenario, context: float, gamma: int, batches: NDArray[np.int64]) -> Peak:
    """The batch of largest speedup at one gamma and context, the smaller one on a tie.

    Raises InputError for a batch below 1 or a gamma that the draft cannot make.
    """
    if batches.ndim != 1 or batches.size == 0 or batches.min() < 1:
        raise refuse("--batch", None, "whole numbers from 1", list(batches))
    check_draft_length(scenario.draft, gamma)
    fast = speedups(scenario, batches.astype(float), np.asarray(context, float), np.array([gamma]))[..., 0]
    at = int(np.argmax(fast))
    gained = scenario.tokens_per_iteration(float(batches[at]), gamma)[..., gamma]
    return Peak(
        batch=int(batches[at]),
        speedup=float(fast[at]),
        round_cost=float(gained) / float(fast[at]),
        efficiency=float(target_efficiency(scenario, float(batches[at]), context, gamma)),
        batches=batches,
        speedups=fast,
    )


def with_independence(scenario: Scenario, independence: float) -> Scenario:
    """The same question with tokens of one sequence routed more alike."""
    _check_independence(independence)
    return replace(scenario, routing_independence=independence)


def _check_independence(independence: float) -> None:
    if not 0 <= independence <= 1:
        raise refuse("--routing-independence", None, "a number from 0 (all alike) to 1", independence)
