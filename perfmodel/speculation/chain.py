"""A chain of gamma drafted tokens, one verification: what an iteration costs and what it gains.

    iteration = gamma (T_D + T_select) + T_V(gamma) + overhead
    speedup   = tokens_per_iteration * T_T / iteration

(Leviathan et al. 2023; MagicDec, arXiv 2408.11049). gamma = 0 is plain decoding: speedup exactly 1.
All functions broadcast over ``[batch, context]``; a trailing axis of gammas is added where the text says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perfmodel import costs
from perfmodel.costs.roofline import Machine, PassTime
from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.kv.full import Full
from perfmodel.ops import Array, Floats, Op
from perfmodel.specs.formats import Precision
from perfmodel.specs.model import ModelSpec
from perfmodel.speculation.acceptance import Acceptance, static_batch_tokens_per_iteration
from perfmodel.speculation.workload import Workload

DEFAULT_MAX_GAMMA = 16
BLOCK_ELEMENTS = 2**17
Accounting = Literal["ragged", "lock-step", "static"]


@dataclass(frozen=True)
class Scenario:
    """Everything about a question except its workload.

    machine: device, calibration and the target's tensor-parallel degree. accounting: ``ragged`` lets every sequence
    advance by its own count, ``lock-step`` by the batch's minimum, and a ``static`` batch of sequences that need
    `new_tokens` each ends with its slowest. kv_page: tokens per page of both caches. routing_independence: 1 routes
    the tokens of one sequence to experts independently, 0 all alike (MoE only). core_ops: count linear and attention
    ops alone.
    """

    target: ModelSpec
    machine: Machine
    precision: Precision
    draft: Draft
    acceptance: Acceptance
    accounting: Accounting = "ragged"
    new_tokens: int = 128
    kv_page: int = 1
    routing_independence: float = 1.0
    core_ops: bool = False
    target_shard: costs.Shard = field(init=False, repr=False, compare=False)
    draft_shard: costs.Shard = field(init=False, repr=False, compare=False)
    draft_machine: Machine = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        calibration, draft = self.machine.calibration, self.draft
        head, page, degree = calibration.shards_lm_head, self.kv_page, self.machine.tensor_parallel
        target = costs.shard(self.target, degree, self.precision, head, page)
        object.__setattr__(self, "target_shard", target)
        drafter = costs.shard(draft.model, draft.tensor_parallel, draft.precision, head, page)
        object.__setattr__(self, "draft_shard", drafter)
        machine = Machine(self.machine.gpu, calibration, draft.tensor_parallel)
        object.__setattr__(self, "draft_machine", machine)

    def target_ops(self, batch: Floats, context: Floats, query: Floats = 1.0) -> list[Op]:
        """Ops of a target pass: decoding at query 1, verification at gamma + 1."""
        independent = None
        if self.routing_independence != 1.0:
            independent = 1.0 + (np.asarray(query) - 1.0) * self.routing_independence
        ops = costs.forward(self.target_shard, batch, query, context, Full(), independent_query=independent)
        return costs.core(ops) if self.core_ops else ops

    def draft_ops(self, batch: Floats, context: Floats, query: Floats = 1.0) -> list[Op]:
        """Ops of one draft pass, selection included; query: tokens per sequence (a tree's level, a parallel draft)."""
        ops = self.draft.ops(self.draft_shard, batch, context, query)
        ops = costs.core(ops) if self.core_ops else ops
        return ops + costs.selection(self.draft_shard, batch, context, self.draft.kv)

    def target_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime:
        """All times of a target pass."""
        return self.machine.time(self.target_ops(batch, context, query), batch * np.asarray(query))

    def draft_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime:
        """All times of one draft pass."""
        return self.draft_machine.time(self.draft_ops(batch, context, query), batch * np.asarray(query))

    def target_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of a target pass."""
        return self.machine.predicted_s(self.target_ops(batch, context, query), batch * np.asarray(query))

    def draft_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of one draft pass."""
        return self.draft_machine.predicted_s(self.draft_ops(batch, context, query), batch * np.asarray(query))

    def draft_token_s(self, batch: Floats, context: Floats, gammas: NDArray[np.int64]) -> Array:
        """Calibrated draft time per drafted token on a trailing axis: of length 1 where it is one pass at any gamma."""
        drafted = np.asarray(gammas, float)
        passes = self.draft.passes(drafted)
        if np.array_equal(passes, drafted):
            return np.asarray(self.draft_s(batch, context))
        if not np.any(passes):
            return np.zeros(1)
        each = np.maximum(drafted, 1.0)
        return np.asarray(self.draft_s(batch, context, self.draft.query(each))) * (passes / each)

    def overhead_s(self, batch: Floats, context: Floats) -> Floats:
        """Time of an iteration outside any pass, plus what the KV method rebuilds once per iteration."""
        rebuild = costs.selection(self.draft_shard, batch, context, self.draft.kv, "iteration")
        c = self.machine.calibration
        fixed: Floats = c.iteration_fixed_s.value
        if c.iteration_sequence_s:
            fixed = fixed + c.iteration_sequence_s.value * batch
        return sum((self.draft_machine.op_predicted_s(op) for op in rebuild), start=fixed)

    def setup_s(self, batch: Floats, context: Floats) -> Floats:
        """Time before the first token that only speculation needs: the draft's own prefill, scoring and gathering."""
        once = costs.selection(self.draft_shard, batch, context, self.draft.kv, "setup")
        seconds = sum((self.draft_machine.op_predicted_s(op) for op in once), start=0.0)
        if self.draft.shares_prefill:
            return seconds
        attends = self.draft.kv if self.draft.kv.needs_own_prefill else Full()
        prefill = costs.forward(self.draft_shard, batch, context, 0.0, attends, head_query=1.0)
        return seconds + self.draft_machine.predicted_s(prefill, batch)

    def tokens_per_iteration(self, batch: Floats, max_gamma: int) -> Array:
        """Expected tokens gained per iteration and sequence for gamma 0 ... max_gamma on a trailing axis.

        In lock-step every sequence waits for the shortest run: position j counts only if all sequences accept it.
        """
        survival = self.acceptance.survival(max_gamma)
        if self.accounting == "static":
            ends = [
                static_batch_tokens_per_iteration(survival[: g + 1], batch, self.new_tokens)
                for g in range(max_gamma + 1)
            ]
            return np.stack(np.broadcast_arrays(*ends), axis=-1)
        if self.accounting == "lock-step":
            survival = survival ** np.asarray(batch, float)[..., None]
        return np.cumsum(survival, axis=-1)


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer over ``[batch, context, gamma]``; all times are calibrated seconds of the whole group.

    draft_s is the draft time per drafted token: one draft step with its selection, or a share of a parallel draft's
    pass. verify_s is the pass over gamma + 1 tokens. `gamma_optimal` is the
    integer from 0 (do not speculate) to the scan's end with the largest speedup, the smaller one on a tie.
    """

    batch: Array
    gamma: NDArray[np.int64]
    target_s: Array
    draft_s: Array
    verify_s: Array
    overhead_s: Array
    tokens_per_iteration: Array
    gamma_optimal: NDArray[np.int64]
    speedup_at_gamma_optimal: Array

    @property
    def iteration_s(self) -> Array:
        """Draft steps, verification and overhead of one iteration."""
        return self.gamma * self.draft_s + self.verify_s + self.overhead_s

    @property
    def speedup(self) -> Array:
        """Against plain decoding of the same batch."""
        return self.tokens_per_iteration * self.target_s / self.iteration_s

    @property
    def tpot_s(self) -> Array:
        """Time per output token of one sequence, speculating."""
        return self.iteration_s / self.tokens_per_iteration

    @property
    def ar_tpot_s(self) -> Array:
        """Time per output token of plain decoding."""
        return self.target_s

    @property
    def throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch, speculating."""
        return self.batch / self.tpot_s

    @property
    def ar_throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch, plain decoding."""
        return self.batch / self.target_s

    @property
    def draft_to_target(self) -> Array:
        """Cost ratio c = (T_D + T_select) / T_T."""
        return self.draft_s / self.target_s

    @property
    def verify_to_target(self) -> Array:
        """Cost ratio v = T_V / T_T."""
        return self.verify_s / self.target_s


def check_draft_length(draft: Draft, gamma: int, flag: str = "--gamma") -> None:
    """Refuse (InputError) more tokens than the draft can make."""
    if draft.max_gamma is not None and gamma > draft.max_gamma:
        raise refuse(flag, None, f"at most {draft.max_gamma} with {draft.name}", gamma)


def speedups(scenario: Scenario, batch: Floats, context: Floats, gammas: NDArray[np.int64]) -> Array:
    """Speedup over ``[batch, context]`` with a trailing axis for the given gammas."""
    target, draft, verify, overhead = _times(scenario, batch, context, gammas)
    gained = scenario.tokens_per_iteration(batch, int(gammas.max()))[..., gammas]
    return _speedup(gained, target, draft, verify, overhead, gammas)


def predict(scenario: Scenario, workload: Workload, max_gamma: int = DEFAULT_MAX_GAMMA) -> Prediction:
    """Answer a workload of any size at flat memory beside its result.

    gamma_optimal is sought from 0 to `max_gamma`, or as far as the acceptance data reaches. Raises InputError where
    the workload's gamma is beyond that data.
    """
    batch, context, gamma = workload.batch, workload.context, workload.gamma
    alpha = np.asarray(0.0 if scenario.acceptance.alpha is None else scenario.acceptance.alpha)
    shape = np.broadcast_shapes(batch.shape, context.shape, gamma.shape, alpha.shape)
    draft = scenario.draft
    ends = [end for end in (max_gamma, scenario.acceptance.max_gamma, draft.max_gamma) if end is not None]
    check_draft_length(draft, int(gamma.max()))
    last = max(min(ends), 0)
    deepest = max(last, int(gamma.max()))
    fields = {
        name: np.empty(shape)
        for name in Prediction.__dataclass_fields__
        if name not in ("batch", "gamma", "gamma_optimal")
    }
    best = np.empty(shape, dtype=np.int64)
    for block in _blocks(shape, BLOCK_ELEMENTS // (deepest + 1)):
        b, c, g = (_within(a, block, shape) for a in (batch, context, gamma))
        where: Any = (*block, ...)
        part = scenario
        if alpha.ndim:
            part = replace(scenario, acceptance=Acceptance.from_alpha(_within(alpha, block, shape)))
        _fill(part, b, c, g, last, deepest, {name: whole[where] for name, whole in fields.items()}, best[where])
    return Prediction(
        batch=np.broadcast_to(batch, shape),
        gamma=np.broadcast_to(gamma, shape),
        gamma_optimal=best[()],
        **{k: v[()] for k, v in fields.items()},
    )


def _fill(
    scenario: Scenario,
    batch: Array,
    context: Array,
    gamma: NDArray[np.int64],
    last: int,
    deepest: int,
    out: dict[str, Array],
    best: NDArray[np.int64],
) -> None:
    gammas = np.arange(deepest + 1)
    target, draft, verify, overhead = _times(scenario, batch, context, gammas)
    gained = scenario.tokens_per_iteration(batch, deepest)
    surface = _speedup(gained, target, draft, verify, overhead, gammas)[..., : last + 1]
    winner = np.argmax(surface, axis=-1)
    best[...] = winner
    out["speedup_at_gamma_optimal"][...] = np.take_along_axis(surface, winner[..., None], -1)[..., 0]
    out["target_s"][...] = target[..., 0]
    out["draft_s"][...] = draft[..., 0] if draft.shape[-1] == 1 else _at_gamma(draft, gamma)
    out["verify_s"][...] = _at_gamma(verify, gamma)
    out["overhead_s"][...] = np.where(gamma == 0, 0.0, overhead[..., 0])
    out["tokens_per_iteration"][...] = _at_gamma(gained, gamma)


def _times(
    scenario: Scenario, batch: Floats, context: Floats, gammas: NDArray[np.int64]
) -> tuple[Array, Array, Array, Array]:
    """Target, draft per token, verification and overhead on a trailing gamma axis, of length 1 where it can be."""
    b, c = np.asarray(batch, float)[..., None], np.asarray(context, float)[..., None]
    passes = np.asarray(scenario.target_s(b, c, np.concatenate(([0], gammas)) + 1.0))
    return (
        passes[..., :1],
        scenario.draft_token_s(b, c, gammas),
        passes[..., 1:],
        np.asarray(scenario.overhead_s(b, c)) + np.zeros(1),
    )


def _speedup(
    gained: Array, target: Array, draft: Array, verify: Array, overhead: Array, gammas: NDArray[np.int64]
) -> Array:
    iteration = gammas * draft
    iteration = iteration + verify
    iteration += overhead
    speedup = gained * target
    speedup = speedup / iteration
    speedup[..., gammas == 0] = 1.0
    return speedup


def _at_gamma(values: Array, gamma: NDArray[np.int64]) -> Array:
    """Pick each point's gamma from a trailing axis that starts at gamma = 0."""
    if gamma.size == 1:
        return values[..., int(gamma.reshape(-1)[0])]
    dims = max(values.ndim - 1, gamma.ndim)
    values = values.reshape((1,) * (dims + 1 - values.ndim) + values.shape)
    index = gamma.reshape((1,) * (dims - gamma.ndim) + gamma.shape)
    return np.take_along_axis(values, index[..., None], -1)[..., 0]


def _blocks(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut a grid into blocks of about `limit` points, whole trailing axes first."""
    steps, room = [], max(limit, 1)
    for size in reversed(shape):
        steps.append(max(min(size, room), 1))
        room = max(room // max(size, 1), 1)
    steps.reverse()
    for start in np.ndindex(*(-(-size // step) for size, step in zip(shape, steps, strict=True))):
        yield tuple(slice(i * step, (i + 1) * step) for i, step in zip(start, steps, strict=True))


def _within(values: NDArray[Any], block: tuple[slice, ...], shape: tuple[int, ...]) -> NDArray[Any]:
    """The part of an array that broadcasts into a block of `shape`."""
    values = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    return values[tuple(cut if size > 1 else slice(None) for cut, size in zip(block, values.shape, strict=True))]
