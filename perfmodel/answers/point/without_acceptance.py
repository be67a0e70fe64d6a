"""Makes the answer of `whatif` if the acceptance of the draft is unknown."""

from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.point.assembly import assembled
from perfmodel.answers.point.verdict import Verdict, does_not_fit, verdict
from perfmodel.answers.point.whatif_answer import Accepted, WhatIf
from perfmodel.answers.question import Query, resolve, resolve_costs, with_draft
from perfmodel.answers.question.typical import TypicalGain, typical_acceptance
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import (
    Acceptance,
    Scenario,
    Workload,
    alpha_from_tokens_per_iteration,
    predict,
    speedups,
)

UNKNOWN: dict[str, Any] = dict.fromkeys(
    (
        "speedup",
        "speedup_interval",
        "chance_above_one",
        "tpot_s",
        "throughput_tokens_per_s",
        "gamma_optimal",
        "speedup_at_gamma_optimal",
        "break_even_new_tokens",
        "best",
        "joules_per_token",
    )
)
"""Fields that are None if no acceptance is known."""


def undecided(query: Query, unknown: UnknownAcceptance) -> WhatIf:
    """The answer if the acceptance is unknown: all numbers that do not depend on the acceptance, and the
    break-even acceptance. If there is none, the verdict is that of the acceptance 1.

    - unknown: the error that says why the acceptance is unknown.
    """
    drafted_query = with_draft(query)
    gamma, alpha = _least_break_even(resolve_costs(drafted_query), query)
    # figures that depend on the acceptance are computed at the break-even acceptance, and then removed
    assumed = Acceptance.from_alpha(1.0 if alpha is None else alpha, source="unknown")
    assumed = assumed.replace(measured_at=(float(gamma),))
    scenario = resolve(drafted_query, assumed)
    prediction = predict(scenario, Workload.of(query.batch, query.context, gamma), query.max_gamma)
    answer = assembled(replace(query, gamma=gamma), scenario, prediction)
    lengths = f"gamma {gamma}" if query.gamma else "any gamma"
    if alpha is None:
        pays = f"is not predicted to pay off at {lengths} with any acceptance"
    else:
        pays = f"pays off from alpha {alpha:.2f} (gamma {gamma})"
    why = f"{unknown.why}; {pays}"
    word: Verdict = "unknown_acceptance"
    if alpha is None:
        assert answer.speedup is not None
        word = verdict(scenario, float(query.context), answer.speedup, answer.speedup_interval, gamma)
    typical = None if alpha is None else _typical(query, scenario)
    if typical is not None:
        why = f"{typical.sentence}{_with_a_switch(drafted_query, scenario, typical)}; {pays}"
    if not answer.memory.fits:
        margin_bytes = scenario.account.margin_bytes
        why = f"{does_not_fit(answer.memory, gamma, word, margin_bytes)}; {why}"
        word = answer.verdict
    return replace(
        answer,
        verdict=word,
        reason=why,
        acceptance=Accepted(None, None, f"none is known; {unknown.known}".removesuffix("; ")),
        break_even_alpha=alpha,
        typical=typical,
        inflection=replace(answer.inflection, break_even_context=None, inflection_context=None),
        remedies=(),
        admitted=None,
        **UNKNOWN,
    )


def _with_a_switch(query: Query, scenario: Scenario, typical: TypicalGain) -> str:
    """The change with which the draft gains even with a low acceptance for its kind, in words. The text is
    empty if the draft gains without a change, or if no change helps. Another attention backend comes before a
    smaller cache, because it does not change the outputs of the model.
    """
    if typical.worth_measuring:
        return ""
    from perfmodel.answers.point.remedies import switch_text, switched  # most drafts gain

    helpful = []
    for changes, changed in switched(query, scenario):
        gain = None if "draft_tp" in changes else _typical(query, changed)
        if gain is not None and gain.worth_measuring:
            helpful.append(("kv_dtype" not in changes, gain.speedups[0], gain.range, switch_text(changes)))
    if not helpful:
        return ""
    *_, gains, switch = max(helpful)
    return f"; with {switch} likely {gains}"


def _typical(query: Query, scenario: Scenario) -> TypicalGain | None:
    """The gain with a typical acceptance of the draft's kind; None if too few were published."""
    typical = typical_acceptance(scenario.draft)
    if typical is None:
        return None
    longest = min(query.max_gamma, len(typical.low))
    lengths = np.array([query.gamma] if query.gamma else range(longest + 1))
    if lengths.max() > len(typical.low):
        return None
    ends = [scenario.with_acceptance(acceptance) for acceptance in typical.acceptances()]
    low, high = (speedups(end, float(query.batch), float(query.context), lengths).max() for end in ends)
    return TypicalGain.of(query.model, scenario.draft, typical, float(low), float(high))


def _least_break_even(scenario: Scenario, query: Query) -> tuple[int, float | None]:
    """The draft length with the smallest break-even acceptance, and this acceptance. The acceptance is the
    same at all positions. If not even 1 is sufficient, the draft length is the one with the largest speedup
    at 1, and the acceptance is None. If the question states a draft length, no other length is tried.

    To break even, an iteration must gain as many tokens as a sequence decodes in the same time without a
    draft.
    """
    most = max(scenario.longest(query.max_gamma), 1)
    gammas = np.array([query.gamma] if query.gamma else range(1, most + 1))
    certain = scenario.with_acceptance(Acceptance.from_alpha(1.0))
    most_gained = speedups(certain, float(query.batch), float(query.context), gammas)
    needed = (gammas + 1.0) / most_gained  # tokens per iteration
    alphas = alpha_from_tokens_per_iteration(np.clip(needed, 1.0, gammas + 1.0), gammas.astype(float))
    reached = np.where(needed <= gammas + 1.0, alphas, np.inf)
    least = int(np.argmin(reached))
    if np.isfinite(reached[least]):
        return int(gammas[least]), float(reached[least])
    return int(gammas[np.argmax(most_gained)]), None
