"""A batch whose sequences differ in context and acceptance: its passes, speedup, best draft length and
memory.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfmodel.operations import Array, Floats, Op
from perfmodel.speculation.acceptance import tokens_per_iteration
from perfmodel.speculation.capacity import Memory, memory_of
from perfmodel.speculation.scenario import Scenario


def mixed_s(
    scenario: Scenario, contexts: Sequence[float], query: float = 1.0, drafting: bool = False
) -> float:
    """Target or draft pass over sequences of different contexts: attention is summed, all else runs them
    together.
    """
    at = np.asarray(contexts, float)
    ops, machine = scenario.target_ops, scenario.machine
    if drafting:
        ops, machine = scenario.draft_ops, scenario.draft_machine
    alone, together = ops(1.0, at, query), ops(float(at.size), float(at.mean()), query)
    pairs = zip(alone, together, strict=True)
    mixed = [_summed(one, whole, at) if whole.kind == "attention" else whole for one, whole in pairs]
    return float(machine.predicted_s(mixed, at.size * query))


def mixed_speedup(
    scenario: Scenario, contexts: Sequence[float], alphas: Sequence[float], gamma: int
) -> float:
    """Speedup of a batch whose sequences have their own contexts and alphas, each held by requests of one
    length.

    Slots are refilled: requests of low alpha stay longer, so that a slot's rate is its own Omega and the
    batch's throughput the sum over slots.
    """
    draft = scenario.draft
    rates = tokens_per_iteration(gamma, np.asarray(alphas, float))
    each = mixed_s(scenario, contexts, float(draft.query(float(gamma))), drafting=True)
    overhead = float(np.mean(scenario.overhead_s(float(len(contexts)), np.asarray(contexts, float))))
    iteration = float(draft.passes(float(gamma))) * each + mixed_s(scenario, contexts, gamma + 1.0) + overhead
    return float(np.mean(rates)) * mixed_s(scenario, contexts) / iteration


def best_gamma(
    scenario: Scenario, contexts: Sequence[float], alphas: Sequence[float], max_gamma: int, fraction: float
) -> int:
    """The draft length from 1 to `max_gamma`, or as far as the draft goes, with the largest `mixed_speedup`.

    Of those that fit in a `fraction` of memory; 1 where none does.
    """
    gammas = range(1, scenario.longest(max_gamma) + 1)
    fitting = [gamma for gamma in gammas if mixed_memory(scenario, contexts, gamma, fraction).fits]
    return max(fitting, key=lambda gamma: mixed_speedup(scenario, contexts, alphas, gamma), default=1)


def mixed_memory(
    scenario: Scenario, contexts: Sequence[float], gamma: int, fraction: float
) -> Memory[Floats]:
    """`capacity.memory_of` for sequences of different contexts; the largest batches are of such a mixture."""
    at = np.asarray(contexts, float)
    each, baseline = (memory_of(scenario, 1.0, at, length, fraction) for length in (gamma, 0))
    room = each.available_bytes - each.weight_bytes
    spare = room - each.draft_weight_bytes
    mean = np.mean(each.kv_bytes + each.draft_kv_bytes)
    return replace(
        each,
        kv_bytes=np.sum(each.kv_bytes),
        draft_kv_bytes=np.sum(each.draft_kv_bytes),
        fits=np.less_equal(at.size * mean, spare),
        max_batch=np.maximum(spare // mean, 0.0),
        ar_max_batch=np.maximum(room // np.mean(baseline.kv_bytes), 0.0),
    )


def _summed(one: Op, whole: Op, at: Array) -> Op:
    """An attention op over sequences at these contexts, in one launch. one: of each alone; whole: at their
    mean.
    """
    summed = {
        name: float(np.sum(np.broadcast_to(getattr(one.cost, name), at.shape)))
        for name in ("flops", "kv_bytes", "activation_bytes")
    }
    return replace(whole, cost=replace(whole.cost, **summed), kernels=float(np.max(one.kernels)))
