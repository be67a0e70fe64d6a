"""The times of a scenario's passes as programs (`costs.compiled`): the same figures, without objects."""

from dataclasses import dataclass

from perfmodel.costs.compiled import Program
from perfmodel.operations import Floats
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class PassPrograms:
    """Seconds of a target pass and of a draft pass by (batch, context, query, deviation of the context), and
    of an iteration outside its passes by (batch, context).
    """

    target: Program
    draft: Program
    overhead: Program

    @classmethod
    def of(cls, scenario: Scenario) -> "PassPrograms":
        """Compiles the passes of a scenario, as they are without a power limit."""

        def target(batch: Floats, context: Floats, query: Floats, deviation: Floats) -> Floats:
            spread = scenario.with_context_std(deviation)
            ops = spread.target_ops(batch, context, query)
            return scenario.machine.predicted_s(ops, batch * query)

        def draft(batch: Floats, context: Floats, query: Floats) -> Floats:
            ops = scenario.draft_ops(batch, context, query)
            return scenario.draft_machine.predicted_s(ops, batch * query)

        return cls(
            Program(target, "batch", "context", "query", "deviation"),
            Program(draft, "batch", "context", "query"),
            Program(scenario.overhead_s, "batch", "context"),
        )
