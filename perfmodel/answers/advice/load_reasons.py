"""The reason of a choice of `advise` under a load, in words."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import draft_text
from perfmodel.answers.advice.load_decision import LoadDecision
from perfmodel.answers.advice.load_order import near_tie, time_s, used
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.reasons import likely_text, no_draft_runs, others_to_compare
from perfmodel.answers.advice.served import Served
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.text import clients, request_rate, seconds

SEEN = 0.005
"""A smaller share would be printed as 0 %, so the text does not mention it."""


def load_reason(question: AdviseQuery, decision: LoadDecision, chosen: Served) -> str:
    """The reason as a part of a sentence. The text states the GPUs, the TPOT and the share of the saturation
    rate of the choice. For comparison, the text states the same for the best servers without a draft, or with
    a draft if the choice has no draft.
    """
    needs = f"{load_text(question)}: {served_text(chosen)}{_wait_text(question, chosen)}"
    needs += _tie_text(question, decision, chosen)
    baseline, rival = decision.baseline, decision.rival
    if not chosen.row.gamma:
        if rival is None:
            return f"{needs}{_without_rival(question, decision)}"
        name = rival.candidate.scenario.draft.name
        with_draft = f"{served_text(rival)}{_near_tie(question, chosen, rival)}"
        return f"{needs}; with {name} {with_draft}"
    if baseline is None:
        return f"{needs}; no layout serves it without a draft"
    return f"{needs}; without a draft {served_text(baseline)}"


def _wait_text(question: AdviseQuery, chosen: Served) -> str:
    """The numbers of running and of waiting clients with the resulting TTFT, in words. The text is empty
    unless clients wait for a seat, and for an offline job, which has no TTFT to meet.
    """
    if question.clients is None or question.fills or not chosen.queues:
        return ""
    running = round(chosen.candidate.layout.replicas * chosen.row.running_mean)
    wait = f"TTFT {seconds(chosen.ttft_s)}"
    return f" ({running} clients run and {question.clients - running} wait for a seat, {wait})"


def _tie_text(question: AdviseQuery, decision: LoadDecision, chosen: Served) -> str:
    """Why the choice is preferred to a slightly faster layout, in words. The text is empty if the choice is
    the fastest layout.
    """
    gpus, drafts = chosen.candidate.layout.gpus, bool(chosen.row.gamma)
    alike = [s for s in decision.others if s.suffices and bool(s.row.gamma) == drafts]
    least_s = time_s(chosen, question)
    sooner = [s for s in alike if s.candidate.layout.gpus == gpus and time_s(s, question) < least_s]
    if not sooner:
        return ""
    first = min(sooner, key=lambda s: time_s(s, question))
    less = 1.0 - time_s(first, question) / least_s
    label = first.candidate.layout.label()
    if less < SEEN:
        return ""
    if less > near_tie(question):
        if not first.queues or chosen.queues:
            return ""
        wait = f"its requests wait {seconds(first.ttft_s)} for the first token"
        return f" ({label} takes {less:.0%} less time, but {wait})"
    why = "is simpler to run"
    if used(chosen, question) < used(first, question):
        why = "stays further below the limits"
    elif first.queues and not chosen.queues:
        why = "has a seat for every request"
    return f" ({label} takes {less:.0%} less time, a near tie; the choice {why})"


def _near_tie(question: AdviseQuery, chosen: Served, rival: Served) -> str:
    """The time that a draft saves on the same number of GPUs, in words. The text is empty unless this time is
    too short to run the draft.
    """
    less = 1.0 - time_s(rival, question) / time_s(chosen, question)
    if rival.candidate.layout.gpus != chosen.candidate.layout.gpus or not SEEN <= less <= ALIKE:
        return ""
    return f" ({less:.0%} less time, a near tie)"


def _without_rival(question: AdviseQuery, decision: LoadDecision) -> str:
    """The reason why no draft is compared with the choice. If no acceptance is known, the text has the gain
    of a typical draft.
    """
    if decision.verdict == "unknown_acceptance":
        return f"; no acceptance is known for {question.model}{likely_text(question, decision.likely)}"
    if decision.none_runs:
        return f"; {no_draft_runs(question)}"
    limits = " within the limits" if question.latency_limits_ms else ""
    others = others_to_compare(question)
    return f"; no draft with a known acceptance is faster{limits}{others}"


def served_text(served: Served) -> str:
    """The GPUs, their layout, their TPOT and their share of the saturation rate, in words."""
    layout = served.candidate.layout
    return f"{gpus_text(layout.gpus)} ({layout.label()}), {_reached(served)}"


def served_with_draft(served: Served) -> str:
    """The layout, the draft, TTFT, TPOT and the share of the saturation rate, in words."""
    first = "" if served.row.ttft_s is None else f"TTFT {seconds(served.ttft_s)}, "
    return f"{served.candidate.layout.label()}, {draft_text(served.point)}, {first}{_reached(served)}"


def enough_text(served: Served) -> str:
    """The number of GPUs that suffice, in words, such as ``8 GPUs suffice: 2 x TP 4, no draft, TPOT 17
    ms``.
    """
    return f"{suffice_text(served.candidate.layout.gpus)}: {served_with_draft(served)}"


def suffice_text(number: int) -> str:
    """A sufficient number of GPUs in words: ``1 GPU suffices`` or ``8 GPUs suffice``."""
    return "1 GPU suffices" if number == 1 else f"{gpus_text(number)} suffice"


def gpus_text(number: int) -> str:
    """A number of GPUs in words, such as ``1 GPU`` or ``8 GPUs``."""
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _reached(served: Served) -> str:
    """The TPOT, and the share of the saturation rate."""
    row = served.row
    tpot = f"TPOT {seconds(served.tpot_s)}"
    if row.request_rate is None or not row.saturation_rate:
        return tpot
    return f"{tpot}, at {row.requests_per_s / row.saturation_rate:.0%} of saturation"


def load_text(question: AdviseQuery) -> str:
    """The load and its latency limits, with the share of requests that must meet these, in words."""
    if question.request_rate is not None:
        load = request_rate(question.request_rate)
    else:
        load = clients(question.clients or 0)
    limits = ", ".join(f"{name} {limit:g} ms" for name, limit in question.latency_limits_ms.items())
    within = f" with {SHARE_WANTED:.0%} within {limits}" if limits else ""
    cached = ""
    if question.prefix_len:
        whose = "" if question.prefix_hits == 1.0 else f" in {question.prefix_hits:.0%} of the prompts"
        cached = f" ({question.prefix_len} shared{whose})"
    return f"{load} of {question.input_len}{cached} + {question.output_len} tokens{within}"


def sooner_text(before: Served, served: Served) -> str:
    """The time of a request, compared with that on other servers, in words."""
    return f"a request takes {seconds(served.request_s)} instead of {seconds(before.request_s)}"
