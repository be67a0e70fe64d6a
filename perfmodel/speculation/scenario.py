"""A question without its workload (batch, context and gamma), with the times of its passes.

The arguments of all functions broadcast together.
"""

from functools import cached_property
from typing import Any

import numpy as np

from perfmodel.costs.operation import work
from perfmodel.costs.pass_time import PassTime
from perfmodel.operations import Array, Floats, Ints
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.counted import CountedScenario
from perfmodel.speculation.pass_formulas import formulas_of
from perfmodel.speculation.programs import PassFormulas


class Scenario(CountedScenario):
    """A question without its workload (batch, context and gamma). All its times are calibrated seconds."""

    @cached_property
    def known(self) -> dict[Any, Any]:
        """The results that `once` stores. Scenarios that differ only in acceptance share them."""
        return {}

    @property
    def server_devices(self) -> int:
        """Number of devices of a server that compute at the same time, or of those that run in turn."""
        return max(self.machine.tensor_parallel, self.account.server.devices)

    @cached_property
    def formulas(self) -> PassFormulas:
        """The formulas of the seconds of passes, without a power limit."""
        return formulas_of(self)

    def with_acceptance(self, acceptance: Acceptance | None) -> "Scenario":
        """A copy with another acceptance, with the same shards and formulas."""
        changed = self.on_same_shards(acceptance=acceptance)
        vars(changed).update(formulas=self.formulas, known=self.known)
        return changed

    def target_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of one target pass."""
        return self.machine.time(self.target_ops(batch, context, query), batch * query)

    def draft_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of one draft pass. They are zero for a draft that runs no model."""
        return self._if_run(self.draft_machine.time(self.draft_ops(batch, context, query), batch * query))

    def target_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of one target pass at one point, as plain numbers."""
        return PassTime.of_figures(self.formulas.target_step.numbers(batch, context, query))

    def draft_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of one draft pass at one point, as plain numbers. See `draft_step`."""
        return self._if_run(PassTime.of_figures(self.formulas.draft_step.numbers(batch, context, query)))

    def _if_run(self, step: PassTime[Any]) -> PassTime[Any]:
        """A draft pass, or a pass without time if the draft runs no model."""
        return step if self.draft.passes(1.0) else step.slowed(0.0)

    def target_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated seconds of one target pass."""
        seconds = self.formulas.target.at(batch, context, query, self.context_std)
        if self.power_limit_w is None:
            return seconds
        ops = self.target_ops(batch, context, query, self.summed_target)
        return self.machine.gpu.limited(self.power_limit_w, seconds, *work(ops)).seconds

    def draft_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated seconds of one draft pass, including the selection of cached tokens."""
        return self.formulas.draft.at(batch, context, query)

    def draft_token_s(self, batch: Floats, context: Floats, gammas: Ints) -> Array:
        """Calibrated seconds of drafting per drafted token.

        The result has no axis of gammas if a token needs one pass at every gamma, or no pass.
        """
        passes = self.drafting(gammas)
        if passes.share is None:
            return np.asarray(0.0)
        return np.asarray(self.draft_pass_s(batch, context, passes.query) * passes.share)

    def overhead_s(self, batch: Floats, context: Floats) -> Floats:
        """Seconds of an iteration outside its passes, including work that the KV method and the draft do once
        per iteration.
        """
        return self.formulas.overhead.at(batch, context)

    def setup_s(self, batch: Floats, context: Floats) -> Floats:
        """Additional seconds before the first token with speculation: the draft's prefill, and the scoring
        and gathering of its KV method.
        """
        return self.formulas.setup.at(batch, context)
