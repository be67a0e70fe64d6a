"""The additional output of ``perfmodel whatif --verbose``: each pass, and the evidence for the numbers."""

from perfmodel.answers.point.not_modelled import NOT_MODELLED
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.text import NONE, counted, limiter, range_text, seconds, size, tokens
from perfmodel.cli.output import table


def print_passes(a: WhatIf) -> None:
    """Prints each pass with its predicted time and its bounds. A draft that runs no model has no pass."""
    steps = {"baseline step": a.target_step}
    if a.query.gamma:
        drafts = {"draft step": a.draft_step} if a.draft_step.predicted_s else {}
        steps |= drafts | {"verification": a.verify_step}
    rows = []
    for name, step in steps.items():
        times = (seconds(step.lower_s), seconds(step.predicted_s), seconds(step.serial_s))
        rows.append((name, *times, limiter(step.limiter)))
    table(("one pass", "lower bound", "predicted", "no overlap", "limited by"), rows)


def more_facts(a: WhatIf) -> dict[str, str]:
    """The parts of the answer that are only printed with ``--verbose``, each with its name."""
    rows = {"baseline": f"{seconds(a.ar_tpot_s)} per token{range_text(a.ar_tpot_interval)}"}
    if a.query.gamma:
        ratios = a.cost_ratios
        cost = f"draft/target {ratios.draft_to_target:.2f}, verification/target {ratios.verify_to_target:.2f}"
        rows["cost ratios"] = f"{cost}; {seconds(a.overhead_s)} per iteration outside the passes"
    if (interval := a.acceptance.tokens_per_iteration_interval) is not None:
        low, high = interval
        rows["tokens"] = f"{low:.2f} to {high:.2f} per iteration if acceptance changes with the position"
    if a.query.gamma and a.speedup is not None:
        rows |= _with_draft(a)
    rows["memory-bound context"] = _memory_bound(a.inflection.memory_bound_context)
    rows |= _held(a)
    if a.calibration.fitted_on and not a.calibration.rests_on:
        rows["fitted on"] = ", ".join(a.calibration.fitted_on)
    return rows | {"not modelled": ", ".join(NOT_MODELLED)}


def _with_draft(a: WhatIf) -> dict[str, str]:
    """The context lengths that a draft has, and the tokens that repay its set-up."""
    repaid_after = "never breaks even"
    if a.break_even_new_tokens is not None:
        repaid_after = f"breaks even after {counted(a.break_even_new_tokens, 'new token')}"
    inflection = tokens(a.inflection.inflection_context)
    return {
        "break-even context": tokens(a.inflection.break_even_context),
        "inflection context": f"{inflection} (from here on a larger batch does not reduce the speedup)",
        "draft set-up": f"{seconds(a.draft_setup_s)} before the first token, which {repaid_after}",
    }


def _memory_bound(start: float | None) -> str:
    """The context from which loading takes longer than computing, in words."""
    if start is None:
        return f"{NONE} (at long contexts, computing takes longer than loading)"
    if start == 1:
        return "1 (loading takes longer than computing at every context)"
    return tokens(start)


def _held(a: WhatIf) -> dict[str, str]:
    """The bytes on each device, and the largest batches."""
    memory = a.memory
    draft = size(memory.draft_weight_bytes + memory.draft_kv_bytes)
    together = a.query.layer_split > 1 or "+" in a.query.hardware
    holder = "the devices hold" if together else "each device holds"
    return {
        holder: f"weights {size(memory.weight_bytes)}, KV {size(memory.kv_bytes)}, draft {draft}",
        "largest batch": f"{memory.max_batch} ({memory.ar_max_batch} baseline)",
    }
