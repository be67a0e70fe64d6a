"""What a served batch does that one batch, one context and one alpha leave out.

Contexts and acceptances differ within a batch, CUDA graphs round it up, and draft and verification passes may alternate
or mix. All of it is closed form; a seeded simulation in the tests confirms it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats, Op
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import Memory, memory_of
from perfmodel.speculation.chain import check_draft_length
from perfmodel.speculation.scenario import Scenario


def mixed_target_s(scenario: Scenario, contexts: Sequence[float], query: float = 1.0) -> float:
    """Target pass over sequences of different contexts: attention is summed, everything else runs them together."""
    return float(scenario.machine.predicted_s(_mixed(scenario, contexts, query, False), len(contexts) * query))


def mixed_draft_s(scenario: Scenario, contexts: Sequence[float], query: float = 1.0) -> float:
    """One draft pass over sequences of different contexts, KV selection included."""
    return float(scenario.draft_machine.predicted_s(_mixed(scenario, contexts, query, True), len(contexts) * query))


def mixed_speedup(scenario: Scenario, contexts: Sequence[float], alphas: Sequence[float], gamma: int) -> float:
    """Speedup of a batch whose sequences have their own contexts and alphas, each held by requests of one length.

    Slots are refilled: requests of low alpha stay longer, so that a slot's rate is its own Omega and the batch's
    throughput the sum over slots. Raises InputError for a gamma that the draft cannot make.
    """
    if len(contexts) != len(alphas) or gamma < 1:
        raise InputError("mixed batch: one alpha per context, and gamma of 1 or more")
    draft = scenario.draft
    check_draft_length(draft, gamma)
    rates = Acceptance.from_alpha(np.asarray(alphas, float)).tokens_per_iteration(gamma)
    each = mixed_draft_s(scenario, contexts, float(draft.query(float(gamma))))
    overhead = float(np.mean(scenario.overhead_s(float(len(contexts)), np.asarray(contexts, float))))
    iteration = float(draft.passes(float(gamma))) * each + mixed_target_s(scenario, contexts, gamma + 1.0) + overhead
    return float(np.mean(rates)) * mixed_target_s(scenario, contexts) / iteration


def best_gamma(
    scenario: Scenario, contexts: Sequence[float], alphas: Sequence[float], max_gamma: int, fraction: float
) -> int:
    """The draft length from 1 to `max_gamma`, or as far as the draft goes, with the largest `mixed_speedup`.

    Of those that fit in a `fraction` of memory; 1 where none does.
    """
    gammas = range(1, scenario.longest(max_gamma) + 1)
    fitting = [gamma for gamma in gammas if mixed_memory(scenario, contexts, gamma, fraction).fits]
    return max(fitting, key=lambda gamma: mixed_speedup(scenario, contexts, alphas, gamma), default=1)


def mixed_memory(scenario: Scenario, contexts: Sequence[float], gamma: int, fraction: float) -> Memory[Floats]:
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


def tokens_per_slot_iteration(acceptances: Sequence[Acceptance], shares: Sequence[float], gamma: int) -> float:
    """Mean tokens an occupied slot gains per iteration when requests of equal length arrive in these shares.

    A request of k tokens holds its slot for k / Omega iterations, so that slots see the harmonic mean: 1 / E[1/Omega].
    """
    weights = np.asarray(shares, float)
    if len(acceptances) != weights.size or not (np.all(weights >= 0) and 0 < weights.sum() < np.inf):
        raise refuse("shares", None, "one share per acceptance, 0 or more", list(shares)[:4])
    rates = np.array([float(np.ravel(a.tokens_per_iteration(gamma))[0]) for a in acceptances])
    return float(weights.sum() / (weights / rates).sum())


def alternating_s(scenario: Scenario, batch: Floats, context: Floats, gamma: int) -> Floats:
    """Time per iteration where all sequences draft together and then verify together."""
    drafts = gamma * np.asarray(scenario.draft_token_s(batch, context, np.array([gamma])))
    total = drafts + scenario.target_pass_s(batch, context, gamma + 1.0) + scenario.overhead_s(batch, context)
    return np.reshape(total, np.shape(np.asarray(batch) * np.asarray(context)))[()]


def mixes(draft: Draft) -> bool:
    """Whether a draft's passes can run in one with verification: a self-draft's with the target's own weights."""
    return draft.shares_weights and draft.views_target_cache and float(draft.passes(2.0)) == 2.0


def interleaved_s(scenario: Scenario, batch: Floats, context: Floats, gamma: int) -> Floats:
    """Time per iteration (gamma + 1 steps) where in each step 1/(gamma + 1) of the sequences verify and the rest draft.

    Each step then loads the weights once for both, where the draft `mixes`. Steady state: phases spread evenly.
    """
    verifying = np.asarray(batch, float) / (gamma + 1.0)
    drafting = np.asarray(batch, float) - verifying
    tokens = verifying * (gamma + 1.0) + drafting
    joint = [op for op in scenario.target_ops(tokens, context) if op.kind != "attention"]
    reads = [op for op in scenario.target_ops(verifying, context, gamma + 1.0) if op.kind == "attention"]
    reads += [op for op in scenario.draft_ops(drafting, context) if op.kind == "attention"]
    step = scenario.machine.predicted_s([*joint, *reads], tokens)
    return (gamma + 1.0) * step + scenario.overhead_s(batch, context)


def _mixed(scenario: Scenario, contexts: Sequence[float], query: float, drafting: bool) -> list[Op]:
    """Ops of one pass over all sequences, attention ops added up over them; one launch each."""
    at: NDArray[np.float64] = np.asarray(contexts, float)
    if at.ndim != 1 or at.size == 0 or at.min() < 1:
        raise refuse("contexts", None, "one context of 1 token or more per sequence", list(contexts)[:4])

    def counted(batch: float, where: Floats) -> list[Op]:
        ops = scenario.draft_ops if drafting else scenario.target_ops
        return ops(batch, where, query)

    alone, together = counted(1.0, at), counted(float(at.size), float(at.mean()))
    return [
        replace(
            whole,
            cost=replace(
                whole.cost,
                flops=_total(one.cost.flops, at),
                kv_bytes=_total(one.cost.kv_bytes, at),
                activation_bytes=_total(one.cost.activation_bytes, at),
            ),
            kernels=float(np.max(one.kernels)),
        )
        if whole.kind == "attention"
        else whole
        for one, whole in zip(alone, together, strict=True)
    ]


def _total(values: Floats, at: Array) -> float:
    return float(np.sum(np.broadcast_to(values, at.shape)))
