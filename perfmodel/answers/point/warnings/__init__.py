"""Warnings about a point. Each file is about one cause, such as kernels that are slow at this point, or
missing measurements.
"""

from perfmodel.answers.point.warnings.cliffs import cliffs
from perfmodel.answers.point.warnings.outside_rows import outside_rows
from perfmodel.answers.point.warnings.quantising import quantising
from perfmodel.answers.point.warnings.unsplit_attention import unsplit_attention
from perfmodel.answers.question import CommonOptions, common_doubts
from perfmodel.speculation import Memory, Scenario


def warnings(
    question: CommonOptions,
    scenario: Scenario,
    batch: float,
    context: float,
    gamma: int,
    room: Memory[float],
) -> tuple[str, ...]:
    """All warnings about a point. Warnings that any question can get come first."""
    return (
        *common_doubts(question, scenario, batch, context, gamma, room),
        *unsplit_attention(scenario, batch, context, gamma),
        *outside_rows(scenario, batch, context, gamma),
        *cliffs(scenario, batch, context, gamma),
        *quantising(scenario, batch, context),
    )
