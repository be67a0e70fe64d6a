"""The cost and the gain of an iteration with a chain of gamma drafted tokens and one verification.

The time of an iteration is gamma (T_D + T_select) + T_V(gamma) + overhead. The speedup is
tokens_per_iteration * T_T divided by this time.

T_D is a draft step, T_select its selection of cached tokens, T_V the verification and T_T a baseline step
(Leviathan et al. 2023; MagicDec, arXiv 2408.11049). The baseline has gamma = 0 and a speedup of exactly 1.
All functions broadcast over ``[batch, context]``. The methods of `Passes` have a leading axis of gammas. The
function `speedups` has a trailing axis of gammas.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from perfmodel.costs.operation import Op, work
from perfmodel.costs.roofline import Machine
from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Floats, Ints, summed
from perfmodel.specs.devices.power import LimitedPasses
from perfmodel.speculation.counted import DraftPasses
from perfmodel.speculation.scenario import Scenario


class OpSeconds(NamedTuple):
    """Seconds of each operation in the target's passes and in the draft's passes."""

    target: list[Floats]
    draft: list[Floats]


class IterationTimes(NamedTuple):
    """Seconds of a baseline step and of the parts of an iteration: drafting one token, the verification, and
    the overhead.
    """

    target_s: Array
    draft_s: Array
    verify_s: Array
    overhead_s: Floats


class LimitedIteration(NamedTuple):
    """The times and energies of a baseline step and of an iteration under a power limit."""

    step: LimitedPasses
    iteration: LimitedPasses


def check_draft_length(draft: Draft, gamma: int) -> None:
    """Raises InputError if the draft cannot draft `gamma` tokens."""
    if draft.max_gamma is not None and gamma > draft.max_gamma:
        raise refuse("--gamma", None, f"at most {draft.max_gamma} with {draft.name}", gamma)


class _AlongContext(Immutable):
    """Seconds of target passes, of draft passes and outside passes at fixed batches, by context."""

    target_s: Callable[[Array], Array]
    draft_s: Callable[[Array], Array]
    overhead_s: Callable[[Array], Array]


class Passes:
    """The passes of iterations at several points. Their operations are listed only once, and can be timed
    with several calibrations.

    batch and context broadcast together. The gammas are the leading axis of arrays of times, so the innermost
    loops run over contexts. With a trailing axis of 17 gammas, the loops would take three times as long.

    - query: number of tokens per sequence in the target's passes. The first pass is a baseline step.
    """

    def __init__(self, scenario: Scenario, batch: Floats, context: Floats, gammas: Ints) -> None:
        self.batch = np.asarray(batch, float)
        self.context = np.asarray(context, float)
        self.gammas = gammas
        along = (-1, *(1,) * max(self.batch.ndim, self.context.ndim))
        self.drafted = gammas.reshape(along)
        self._baseline = 0 if gammas[0] == 0 else 1  # passes that are added in front of those of the gammas
        self.query = np.concatenate(([0] * self._baseline, gammas)).reshape(along) + 1.0
        self._counted = scenario
        self._along: _AlongContext | None = None

    @cached_property
    def gained(self) -> Array:
        """Tokens per iteration at each gamma."""
        return self._counted.tokens_per_iteration(self.gammas)

    @cached_property
    def _drafting(self) -> DraftPasses:
        return self._counted.drafting(self.drafted)

    @property
    def draft_query(self) -> Floats:
        """Number of tokens per sequence in a draft pass."""
        return self._drafting.query

    @property
    def share(self) -> Floats | None:
        """Number of draft passes per drafted token. The result is None if the draft runs no passes."""
        return self._drafting.share

    @cached_property
    def target_ops(self) -> list[Op]:
        """The operations of the target's passes."""
        counted = self._counted
        return counted.target_ops(self.batch, self.context, self.query, counted.summed_target)

    @cached_property
    def draft_ops(self) -> list[Op]:
        """The operations of the draft's passes. The result is empty if the draft runs no passes."""
        if self.share is None:
            return []
        counted = self._counted
        return counted.draft_ops(self.batch, self.context, self.draft_query, counted.summed_draft)

    def op_seconds(self, scenario: Scenario, known: OpSeconds | None = None, work: str = "") -> OpSeconds:
        """Calibrated seconds of each operation of the target's passes and of the draft's passes.

        - known: the seconds of all operations before a constant changed.
        - work: the kind of operations that this constant affects. Only these operations are timed again.
        """

        changed = "upkeep" if work == "pass" else work

        def again(ops: list[Op], machine: Machine, before: list[Floats]) -> list[Floats]:
            pairs = zip(ops, before, strict=True)
            return [machine.op_predicted_s(op) if op.kind == changed else seconds for op, seconds in pairs]

        if known is None:
            return OpSeconds(
                [scenario.machine.op_predicted_s(op) for op in self.target_ops],
                [scenario.draft_machine.op_predicted_s(op) for op in self.draft_ops],
            )
        return OpSeconds(
            again(self.target_ops, scenario.machine, known.target),
            again(self.draft_ops, scenario.draft_machine, known.draft),
        )

    def times(self, scenario: Scenario, seconds: OpSeconds | None = None) -> IterationTimes:
        """Seconds of a baseline step and of the parts of an iteration. The times of passes have a leading
        axis of gammas. If all gammas have the same time, this axis has length 1 or is left out.

        - scenario: the scenario whose operations were counted, or a copy of it with another calibration. The
          calibration must not change the counts.
        - seconds: the result of `op_seconds`, if it is known.
        """
        unlimited = self._unlimited(scenario, seconds)
        if scenario.power_limit_w is None:
            return unlimited
        limited = self._limited(scenario, unlimited)
        limited_passes_s = limited.iteration.seconds - self._once_per_iteration(unlimited.overhead_s)
        slower = limited_passes_s / (self.drafted * unlimited.draft_s + unlimited.verify_s)
        return IterationTimes(
            np.asarray(limited.step.seconds),
            unlimited.draft_s * slower,
            unlimited.verify_s * slower,
            unlimited.overhead_s,
        )

    def _once_per_iteration(self, overhead_s: Floats) -> Array:
        """Seconds of overhead at each gamma. A baseline step has no overhead."""
        return np.asarray(overhead_s * (self.drafted > 0), float)

    def _limited(self, scenario: Scenario, unlimited: IterationTimes) -> LimitedIteration:
        """Seconds under the power limit, and joules of one device.

        - unlimited: the times without the limit.
        """
        shape = (len(self.query), *unlimited.target_s.shape[1:])
        of_target = work(self.target_ops)
        target_bytes = np.broadcast_to(of_target.moved_bytes, shape)
        target_flops = np.broadcast_to(of_target.flops, shape)
        of_draft = work(self.draft_ops)
        passes_of_draft = 0.0 if self.share is None else self.share * self.drafted
        verified = slice(self._baseline, None)
        moved_bytes = target_bytes[verified] + passes_of_draft * of_draft.moved_bytes
        flops = target_flops[verified] + passes_of_draft * of_draft.flops
        iteration_s = (
            self.drafted * unlimited.draft_s
            + unlimited.verify_s
            + self._once_per_iteration(unlimited.overhead_s)
        )
        limited = partial(scenario.machine.gpu.limited, scenario.power_limit_w)
        return LimitedIteration(
            limited(unlimited.target_s, target_bytes[:1], target_flops[:1]),
            limited(iteration_s, moved_bytes, flops),
        )

    def energy(self, scenario: Scenario) -> dict[str, Any]:
        """The energy in joules per token of all devices together, with speculation and for the baseline, and
        the mean power of a device in watts. The function works only for a single point. The result is empty
        if the power of the device was not measured.
        """
        if scenario.machine.gpu.power_draw is None:
            return {}
        step, iteration = self._limited(scenario, self._unlimited(scenario))
        devices_per_sequence = scenario.machine.tensor_parallel / float(self.batch)
        joules = np.asarray(iteration.joules).item()
        return {
            "joules_per_token": joules * devices_per_sequence / float(self.gained[0]),
            "ar_joules_per_token": np.asarray(step.joules).item() * devices_per_sequence,
            "power_w": joules / np.asarray(iteration.seconds).item(),
        }

    def _unlimited(self, scenario: Scenario, seconds: OpSeconds | None = None) -> IterationTimes:
        """The result of `times` without a power limit."""
        if scenario is self._counted and seconds is None:
            passes_s = self._target_s
            draft_s = self._draft_s
            overhead_s = self._overhead_s
        else:
            passes_s = self._target_by_ops_s(scenario, seconds)
            draft_s = self._draft_by_ops_s(scenario, seconds)
            overhead_s = scenario.overhead_s(self.batch, self.context)
        return IterationTimes(passes_s[:1], draft_s, passes_s[self._baseline :], overhead_s)

    def at(self, context: Array) -> "Passes":
        """The same passes at other contexts. Computations that do not depend on the context are not
        repeated.
        """
        moved = Passes(self._counted, self.batch, context, self.gammas)
        moved._along = self._along_context
        vars(moved).update(gained=self.gained, _drafting=self._drafting)
        return moved

    @cached_property
    def _along_context(self) -> "_AlongContext":
        of = self._counted
        formulas = of.formulas
        return _AlongContext(
            formulas.target.along("context", self.batch, self.query, of.context_std),
            formulas.draft.along("context", self.batch, self.draft_query),
            formulas.overhead.along("context", self.batch),
        )

    @cached_property
    def _target_s(self) -> Array:
        """Seconds of the target's passes with the calibration of the counted scenario."""
        if self._along is not None:
            return self._along.target_s(self.context)
        of = self._counted
        return np.asarray(of.formulas.target.at(self.batch, self.context, self.query, of.context_std))

    @cached_property
    def _draft_s(self) -> Array:
        """Seconds of drafting a token with the calibration of the counted scenario."""
        if self.share is None:
            return np.asarray(0.0)
        if self._along is not None:
            return self._along.draft_s(self.context) * self.share
        return np.asarray(self._counted.draft_pass_s(self.batch, self.context, self.draft_query) * self.share)

    @cached_property
    def _overhead_s(self) -> Floats:
        """Seconds of an iteration outside its passes with the calibration of the counted scenario."""
        if self._along is not None:
            return self._along.overhead_s(self.context)
        return self._counted.overhead_s(self.batch, self.context)

    def _target_by_ops_s(self, scenario: Scenario, seconds: OpSeconds | None) -> Array:
        """Seconds of the target's passes, from the times of their operations.

        - seconds: these times, if they are known.
        """
        of_ops = None if seconds is None else seconds.target
        return np.asarray(scenario.machine.predicted_s(self.target_ops, self.batch * self.query, of_ops))

    def _draft_by_ops_s(self, scenario: Scenario, seconds: OpSeconds | None) -> Array:
        """Seconds of drafting a token, from the times of the draft's operations.

        - seconds: these times, if they are known.
        """
        if self.share is None:
            return np.asarray(0.0)
        of_ops = None if seconds is None else seconds.draft
        tokens = self.batch * self.draft_query
        return np.asarray(scenario.draft_machine.predicted_s(self.draft_ops, tokens, of_ops) * self.share)

    def sequence_rates(self, scenario: Scenario) -> Array:
        """Tokens per second of one sequence, over ``[gamma, batch, context]``. The rate at gamma 0 is that of
        the baseline.
        """
        times = self.times(scenario)
        rates = self.tokens_per_s(times)
        rates[self.gammas == 0] = 1.0 / times.target_s
        return rates

    def speedups(self, scenario: Scenario, seconds: OpSeconds | None = None) -> Array:
        """Speedups over the baseline, over ``[gamma, batch, context]``.

        - seconds: see `times`.
        """
        times = self.times(scenario, seconds)
        over_baseline = self.tokens_per_s(times) * times.target_s
        over_baseline[self.gammas == 0] = 1.0
        return over_baseline

    def ratios(self) -> Array:
        """Time of an iteration divided by the time of a baseline step, over ``[gamma, batch, context]``."""
        speedups = self.speedups(self._counted)
        return np.asarray(self.gained.reshape(-1, *(1,) * (speedups.ndim - 1)) / speedups)

    def tokens_per_s(self, times: IterationTimes) -> Array:
        """Tokens per second of one sequence with speculation, over ``[gamma, batch, context]``."""
        along = (-1, *(1,) * (times.verify_s.ndim - 1))
        drafting_s = times.draft_s * self.gammas.reshape(along)
        iteration_s = summed([drafting_s, times.overhead_s, times.verify_s])
        return np.asarray(self.gained.reshape(along) / iteration_s)


def speedups(scenario: Scenario, batch: Floats, context: Floats, gammas: Ints) -> Array:
    """Speedups over the baseline, over ``[batch, context]`` with a trailing axis of gammas."""
    return np.moveaxis(Passes(scenario, batch, context, gammas).speedups(scenario), 0, -1)
