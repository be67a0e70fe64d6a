"""The forward passes that the pictures show: a baseline step, a draft step and a verification."""

import numpy as np

from perfmodel.costs.operation import Op
from perfmodel.costs.pass_time import PassTime
from perfmodel.costs.roofline import Machine
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.speculation import Scenario


class StagePass(Immutable):
    """One forward pass.

    - machine: the devices that run it.
    - ops: its operations.
    - new_tokens: number of new tokens, summed over the sequences.
    """

    machine: Machine
    ops: list[Op]
    new_tokens: float

    @property
    def time(self) -> PassTime[Floats]:
        """The predicted time of the pass and what limits it."""
        return self.machine.time(self.ops, self.new_tokens)

    @property
    def predicted_s(self) -> float:
        """The predicted time of the pass in seconds."""
        return float(self.machine.predicted_s(self.ops, self.new_tokens))


def stage_passes(scenario: Scenario, batch: float, context: float, gamma: int) -> dict[str, StagePass]:
    """The passes of an iteration by stage (a key of `theme.STAGES`). There is no draft pass if the draft runs
    no model. At gamma 0 there is only the baseline step.
    """
    passes = {"baseline": StagePass(scenario.machine, scenario.target_ops(batch, context), batch)}
    if np.any(scenario.draft.passes(gamma)):
        query = float(scenario.draft.query(gamma))
        ops = scenario.draft_ops(batch, context, query)
        passes["draft"] = StagePass(scenario.draft_machine, ops, batch * query)
    if gamma:
        verified = gamma + 1.0
        ops = scenario.target_ops(batch, context, verified)
        passes["verify"] = StagePass(scenario.machine, ops, batch * verified)
    return passes
