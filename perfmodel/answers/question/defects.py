"""Known defects of serving engines that a question meets: where one slows a draft, no verdict is sure."""

from perfmodel.answers.question.runs_in import draft_word
from perfmodel.specs.calibrations.stacks import engine_of
from perfmodel.specs.engines.serving import Defect, serving_engines
from perfmodel.speculation.scenario import Scenario


def known_defects(scenario: Scenario, context: float) -> tuple[Defect, ...]:
    """Those of the engine's version that speculating with this draft on this device meets at a context."""
    c, target = scenario.machine.calibration, scenario.target
    engine = serving_engines().get(engine_of(c) or "")
    if engine is None:
        return ()
    word, architecture = draft_word(scenario.draft), scenario.machine.gpu.architecture
    backend = scenario.machine.backend(target.mla is not None)
    return tuple(
        d
        for d in engine.defects
        if (not d.drafts or word in d.drafts)
        and (not d.architectures or architecture.startswith(d.architectures))
        and d.backend in (None, backend)
        and (target.linear_attention is not None or not d.recurrent)
        and (target.moe is not None or not d.experts)
        and context >= d.context_from
        and d.of_version(c.version)
    )


def slowing(scenario: Scenario, context: float) -> Defect | None:
    """The first defect that a draft may lose by; None where none is known."""
    return next((d for d in known_defects(scenario, context) if d.slows), None)


def said(defect: Defect) -> str:
    """A defect as a warning."""
    return f"known defect: {defect.says} ({defect.thread})"
