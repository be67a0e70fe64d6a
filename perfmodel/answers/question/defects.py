"""Finds known defects of an engine that affect a draft."""

from perfmodel.answers.question.engine_support import draft_word
from perfmodel.specs import Defect, serving_engine_of
from perfmodel.speculation import Scenario


def known_defects(scenario: Scenario, context: float, gamma: int = 1) -> tuple[Defect, ...]:
    """The known defects of this engine version that affect the draft on this device and at this context.

    - gamma: the draft length.
    """
    calibration = scenario.machine.calibration
    target = scenario.target
    engine = serving_engine_of(calibration)
    if engine is None:
        return ()
    word = draft_word(scenario.draft)
    architecture = scenario.machine.gpu.architecture
    backend = scenario.machine.attention.backend(target.head, scenario.precision.narrow_kv)

    def affects(defect: Defect) -> bool:
        """Whether all conditions of the defect hold for this scenario, context and gamma."""
        if defect.drafts and word not in defect.drafts:
            return False
        if defect.architectures and not architecture.startswith(defect.architectures):
            return False
        if defect.backend not in (None, backend):
            return False
        if defect.assumed and scenario.machine.attention_backend is not None:
            return False
        if defect.recurrent and target.linear_attention is None:
            return False
        if defect.experts and target.moe is None:
            return False
        if defect.uneven and (gamma + 1).bit_count() == 1:
            return False
        return context >= defect.context_from and defect.of_version(calibration.version)

    return tuple([defect for defect in engine.defects if affects(defect)])


def slowing(scenario: Scenario, context: float) -> Defect | None:
    """The first known defect that may make the draft slower; None if there is none."""
    return next((defect for defect in known_defects(scenario, context) if defect.slows), None)


def defect_warning(defect: Defect) -> str:
    """A defect as the text of a warning."""
    return f"known defect: {defect.effect} ({defect.thread})"
