"""A chain of gamma drafted tokens, one verification: what an iteration costs and what it gains.

    iteration = gamma (T_D + T_select) + T_V(gamma) + overhead
    speedup   = tokens_per_iteration * T_T / iteration

(Leviathan et al. 2023; MagicDec, arXiv 2408.11049). gamma = 0 is the baseline: speedup exactly 1.
All functions broadcast over ``[batch, context]``; a trailing axis of gammas is added where the text says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

DEFAULT_MAX_GAMMA = 16
BLOCK_ELEMENTS = 2**17


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
        """Against the baseline of the same batch."""
        return self.tokens_per_iteration * self.target_s / self.iteration_s

    @property
    def tpot_s(self) -> Array:
        """Time per output token of one sequence, speculating."""
        return self.iteration_s / self.tokens_per_iteration

    @property
    def ar_tpot_s(self) -> Array:
        """Time per output token of the baseline."""
        return self.target_s

    @property
    def throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch, speculating."""
        return self.batch / self.tpot_s

    @property
    def ar_throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch without speculation."""
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
    the workload's gamma is beyond that data, and for an answer that is not finite.
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
    for name, values in fields.items():
        if not np.all(np.isfinite(values)):
            files = f"{scenario.target.name}, {scenario.machine.gpu.name} and {scenario.machine.calibration.name}"
            raise InputError(f"{name}: the answer is not a finite number; check the files of {files}")
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
    passes = np.asarray(scenario.target_pass_s(b, c, np.concatenate(([0], gammas)) + 1.0))
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
