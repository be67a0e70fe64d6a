"""A chain of gamma drafted tokens and one verification: the cost and the gain of an iteration.

iteration = gamma (T_D + T_select) + T_V(gamma) + overhead; speedup = tokens_per_iteration * T_T / iteration.

(Leviathan et al. 2023; MagicDec, arXiv 2408.11049). gamma = 0 is the baseline: speedup exactly 1. All
functions broadcast over ``[batch, context]``; some add a trailing axis of gammas and say so.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from perfmodel.costs.operation import Op, work
from perfmodel.costs.roofline import Machine
from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Floats, Ints, summed
from perfmodel.speculation.scenario import Scenario

OpSeconds = tuple[list[Floats], list[Floats]]
"""Seconds of the ops of the target's passes, and of those of the draft's."""
Times = tuple[Array, Array, Array, Floats]
"""Seconds of a target pass, of the draft per token, of a verification, and of the overhead of an iteration.
"""


def check_draft_length(draft: Draft, gamma: int) -> None:
    """Refuse (InputError) more tokens than the draft can make."""
    if draft.max_gamma is not None and gamma > draft.max_gamma:
        raise refuse("--gamma", None, f"at most {draft.max_gamma} with {draft.name}", gamma)


class _AlongContext(Immutable):
    """Seconds of target passes, of draft passes and outside passes at fixed batches, by context."""

    target_s: Callable[[Array], Array]
    draft_s: Callable[[Array], Array]
    overhead_s: Callable[[Array], Array]


class Passes:
    """The passes of iterations at some points, counted at most once and timed under one or several
    calibrations.

    batch and context broadcast together. gammas are a leading axis of everything, so that the innermost loops
    run over contexts (a trailing axis of 17 makes them three times as slow). query: tokens per sequence of
    the target's passes; the first pass is the baseline's.
    """

    def __init__(self, scenario: Scenario, batch: Floats, context: Floats, gammas: Ints) -> None:
        self.batch = np.asarray(batch, float)
        self.context = np.asarray(context, float)
        self.gammas = gammas
        along = (-1, *(1,) * max(self.batch.ndim, self.context.ndim))
        self.drafted = gammas.reshape(along)
        self._baseline = 0 if gammas[0] == 0 else 1
        self.query = np.concatenate(([0] * self._baseline, gammas)).reshape(along) + 1.0
        self._counted = scenario
        self._along: _AlongContext | None = None

    @cached_property
    def gained(self) -> Array:
        """Tokens per iteration at each gamma."""
        return self._counted.tokens_per_iteration(self.gammas)

    @cached_property
    def _drafting(self) -> tuple[Floats, Floats | None]:
        return self._counted.drafting(self.drafted)

    @property
    def draft_query(self) -> Floats:
        """Tokens per sequence of a draft pass."""
        return self._drafting[0]

    @property
    def share(self) -> Floats | None:
        """Share of a draft pass per drafted token; None without passes."""
        return self._drafting[1]

    @cached_property
    def target_ops(self) -> list[Op]:
        """The ops of the target's passes."""
        counted = self._counted
        return counted.target_ops(self.batch, self.context, self.query, counted.summed_target)

    @cached_property
    def draft_ops(self) -> list[Op]:
        """The ops of the draft's passes, if there are any."""
        if self.share is None:
            return []
        counted = self._counted
        return counted.draft_ops(self.batch, self.context, self.draft_query, counted.summed_draft)

    def op_seconds(self, scenario: Scenario, known: OpSeconds | None = None, work: str = "") -> OpSeconds:
        """Calibrated seconds of each op of the target's passes and of the draft's.

        known: the seconds before a constant of `work` changed; they are reused for the ops of other work.
        """

        def of(ops: list[Op], machine: Machine, before: list[Floats]) -> list[Floats]:
            kind = "upkeep" if work == "pass" else work
            return [
                machine.op_predicted_s(op) if known is None or op.kind == kind else seconds
                for op, seconds in zip(ops, before, strict=True)
            ]

        target, draft = known or ([0.0] * len(self.target_ops), [0.0] * len(self.draft_ops))
        return of(self.target_ops, scenario.machine, target), of(
            self.draft_ops, scenario.draft_machine, draft
        )

    def times(self, scenario: Scenario, seconds: OpSeconds | None = None) -> Times:
        """Seconds of the target, of the draft per token and of verification, with a leading axis of gammas
        (length 1 or absent where possible), and of the overhead.

        scenario: the counted one, possibly with a calibration that changes no count. seconds: of the ops
        (`op_seconds`), if known.
        """
        unlimited = self._unlimited(scenario, seconds)
        if scenario.power_limit_w is None:
            return unlimited
        (step, _), (iteration, _) = self.limited(scenario, unlimited)
        end = unlimited[3] * (self.drafted > 0)
        slower = (iteration - end) / (self.drafted * unlimited[1] + unlimited[2])
        return step, unlimited[1] * slower, unlimited[2] * slower, unlimited[3]

    def limited(self, scenario: Scenario, unlimited: Times) -> tuple[Any, Any]:
        """A baseline step and an iteration under the power limit: seconds, and joules per device.

        unlimited: the times without the limit.
        """
        target, draft, verify, overhead = unlimited
        share = 0.0 if self.share is None else self.share * self.drafted
        counted = [
            np.broadcast_to(each, (len(self.query), *target.shape[1:])) for each in work(self.target_ops)
        ]
        both = zip(counted, work(self.draft_ops), strict=True)
        together = [passes[self._baseline :] + share * drafting for passes, drafting in both]
        iteration = self.drafted * draft + verify + overhead * (self.drafted > 0)
        limited = partial(scenario.machine.gpu.limited, scenario.power_limit_w)
        return limited(target, *(passes[:1] for passes in counted)), limited(iteration, *together)

    def energy(self, scenario: Scenario) -> dict[str, Any]:
        """Joules per token of all devices, with speculation and of the baseline, and mean watts of a device,
        at a single point. Empty where no power was measured.
        """
        if scenario.machine.gpu.power_draw is None:
            return {}
        (_, step), (seconds, joules) = self.limited(scenario, self._unlimited(scenario))
        each = scenario.machine.tensor_parallel / float(self.batch)
        return {
            "joules_per_token": joules.item() * each / float(self.gained[0]),
            "ar_joules_per_token": step.item() * each,
            "power_w": joules.item() / seconds.item(),
        }

    def _unlimited(self, scenario: Scenario, seconds: OpSeconds | None = None) -> Times:
        """`times` at the power limit of the device's measurements."""
        if scenario is self._counted and seconds is None:
            passes = self._target_s
            draft = self._draft_s
            overhead = self._overhead_s
        else:
            passes, draft = self._timed(scenario, *(seconds or (None, None)))
            overhead = scenario.overhead_s(self.batch, self.context)
        return passes[:1], draft, passes[self._baseline :], overhead

    def at(self, context: Array) -> "Passes":
        """The same passes at other contexts. Work that does not depend on the context is not repeated."""
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
        """Seconds of the target's passes in the scenario that is counted."""
        if self._along is not None:
            return self._along.target_s(self.context)
        of = self._counted
        return np.asarray(of.formulas.target.at(self.batch, self.context, self.query, of.context_std))

    @cached_property
    def _draft_s(self) -> Array:
        """Seconds of drafting a token in the scenario that is counted."""
        if self.share is None:
            return np.asarray(0.0)
        if self._along is not None:
            return self._along.draft_s(self.context) * self.share
        return np.asarray(self._counted.draft_pass_s(self.batch, self.context, self.draft_query) * self.share)

    @cached_property
    def _overhead_s(self) -> Floats:
        """Seconds of an iteration outside its passes in the scenario that is counted."""
        if self._along is not None:
            return self._along.overhead_s(self.context)
        return self._counted.overhead_s(self.batch, self.context)

    def _timed(
        self, scenario: Scenario, target_s: list[Floats] | None, draft_s: list[Floats] | None
    ) -> tuple[Array, Array]:
        """Seconds of the target's passes and of drafting a token, by ops. target_s, draft_s: of these ops, if
        known.
        """
        passes = scenario.machine.predicted_s(self.target_ops, self.batch * self.query, target_s)
        draft: Floats = 0.0
        if self.share is not None:
            drafted = self.batch * self.draft_query
            draft = scenario.draft_machine.predicted_s(self.draft_ops, drafted, draft_s) * self.share
        return np.asarray(passes), np.asarray(draft)

    def sequence_rates(self, scenario: Scenario) -> Array:
        """Tokens per second of one sequence over ``[gamma, batch, context]``: of a step at gamma 0."""
        target, draft, verify, overhead = self.times(scenario)
        rates = self.tokens_per_s(draft, verify, overhead)
        rates[self.gammas == 0] = 1.0 / target
        return rates

    def speedups(self, scenario: Scenario, seconds: OpSeconds | None = None) -> Array:
        """Speedups over ``[gamma, batch, context]``. seconds: see `times`."""
        target, draft, verify, overhead = self.times(scenario, seconds)
        rate = self.tokens_per_s(draft, verify, overhead)
        rate = rate * target
        rate[self.gammas == 0] = 1.0
        return rate

    def ratios(self) -> Array:
        """Time of an iteration over that of a baseline step, over ``[gamma, batch, context]``."""
        speedups = self.speedups(self._counted)
        return np.asarray(self.gained.reshape(-1, *(1,) * (speedups.ndim - 1)) / speedups)

    def tokens_per_s(self, draft: Array, verify: Array, overhead: Floats) -> Array:
        """Tokens per second of one speculating sequence, over ``[gamma, batch, context]``."""
        along = (-1, *(1,) * (verify.ndim - 1))
        iteration = summed([draft * self.gammas.reshape(along), overhead, verify])
        return np.asarray(self.gained.reshape(along) / iteration)


def speedups(scenario: Scenario, batch: Floats, context: Floats, gammas: Ints) -> Array:
    """Speedup over ``[batch, context]`` with a trailing axis for the given gammas."""
    return np.moveaxis(Passes(scenario, batch, context, gammas).speedups(scenario), 0, -1)
