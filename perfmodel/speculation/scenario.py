"""A question without its workload, with the times of its passes.

All times broadcast over ``[batch, context]``; some functions add a trailing axis of gammas, which their
docstrings mention.
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
    """A question without its workload; times are in seconds, calibrated."""

    @cached_property
    def known(self) -> dict[Any, Any]:
        """Results that `once` keeps; scenarios that differ only in acceptance share them."""
        return {}

    @cached_property
    def formulas(self) -> PassFormulas:
        """Formulas of the seconds of passes without a power limit."""
        return formulas_of(self)

    def with_acceptance(self, acceptance: Acceptance | None) -> "Scenario":
        """The same question with another acceptance, on the same shards and with the same formulas."""
        changed = self.on_same_shards(acceptance=acceptance)
        vars(changed).update(formulas=self.formulas, known=self.known)
        return changed

    def target_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of a target pass."""
        return self.machine.time(self.target_ops(batch, context, query), batch * query)

    def draft_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of one draft pass."""
        return self.draft_machine.time(self.draft_ops(batch, context, query), batch * query)

    def target_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of a target pass at one point."""
        return PassTime.of_figures(self.formulas.target_step.numbers(batch, context, query))

    def draft_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of one draft pass at one point."""
        return PassTime.of_figures(self.formulas.draft_step.numbers(batch, context, query))

    def target_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of a target pass."""
        seconds = self.formulas.target.at(batch, context, query, self.context_std)
        if self.power_limit_w is None:
            return seconds
        ops = self.target_ops(batch, context, query, self.summed_target)
        return self.machine.gpu.limited(self.power_limit_w, seconds, *work(ops)).seconds

    def draft_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of one draft pass, selection included."""
        return self.formulas.draft.at(batch, context, query)

    def draft_token_s(self, batch: Floats, context: Floats, gammas: Ints) -> Array:
        """Calibrated draft time per drafted token. All three arguments broadcast.

        The result has no gamma axis if a token takes one pass at every gamma, or none.
        """
        passes = self.drafting(gammas)
        if passes.share is None:
            return np.asarray(0.0)
        return np.asarray(self.draft_pass_s(batch, context, passes.query) * passes.share)

    def overhead_s(self, batch: Floats, context: Floats) -> Floats:
        """Time of an iteration outside its passes, including the once-per-iteration work of KV method and
        draft.
        """
        return self.formulas.overhead.at(batch, context)

    def setup_s(self, batch: Floats, context: Floats) -> Floats:
        """Additional time before the first token with speculation: prefill of the draft, scoring and
        gathering.
        """
        return self.formulas.setup.at(batch, context)
