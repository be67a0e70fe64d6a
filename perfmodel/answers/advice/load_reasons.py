"""The reason of an answer of `advise` under a load, as a part of a sentence."""

from collections.abc import Sequence
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidates, find_candidates, without_acceptance
from perfmodel.answers.advice.infeasible import why_infeasible
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.reasons import likely_text
from perfmodel.answers.advice.served import Served, estimated, most_clients
from perfmodel.answers.advice.served_target import UNQUANTISED
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.answers.text import clients, request_rate, seconds
from perfmodel.errors import InputError
from perfmodel.specs import engine_of, load_model

WITH_FP8_CACHE = ("vllm", "sglang")
"""Engines whose cache may be in FP8 whatever the checkpoint."""
NOTICED = 0.95
"""Largest ratio of the times of a request from which a change is worth naming."""


def load_reason(
    question: AdviseQuery,
    chosen: Served,
    baseline: Served | None,
    rival: Served | None,
    likely: tuple[TypicalGain, ...],
) -> str:
    """What the load takes with the choice, and without a draft or with one. likely: the typical gains at the
    mean batch, where no acceptance is known.
    """
    needs = f"{_in_words(question)}: {_of(chosen)}{_in_fp8_cache(question, chosen)}"
    fewer = _on_fewer_gpus(question)
    if not chosen.row.gamma:
        if rival is None:
            return f"{needs}{fewer}{_unknown(question, likely)}"
        return f"{needs}; with {rival.candidate.scenario.draft.name} {_of(rival)}{fewer}"
    if baseline is None:
        return f"{needs}; no layout serves it without a draft"
    return f"{needs}; without a draft {_of(baseline)}{fewer}"


def _in_fp8_cache(question: AdviseQuery, chosen: Served) -> str:
    """What a cache in FP8 would change where memory has no room for all clients of a server, by the closed
    form; empty if it would change little, or the question names a format.
    """
    layout = chosen.candidate.layout
    most = chosen.asked.max_concurrency
    engine = engine_of(chosen.candidate.scenario.machine.calibration)
    if question.kv_dtype is not None or most is None or engine not in WITH_FP8_CACHE:
        return ""
    if chosen.seats >= max(most):
        return ""
    smaller = replace(question, kv_dtype="fp8", gpus=layout.gpus)
    drafts = chosen.row.gamma != 0
    try:
        found = find_candidates(smaller, [layout])
        tried = [estimated(smaller, each, drafts) for each in (found.drafted if drafts else found.baselines)]
    except InputError:
        return ""
    more = [each for each in tried if each is not None and each.seats > chosen.seats]
    if not more:
        return ""
    best = min(more, key=lambda each: each.request_s)
    if best.request_s > NOTICED * chosen.request_s:
        return ""
    times = f"{seconds(best.request_s)} instead of {seconds(chosen.request_s)}"
    return (
        f", and memory for {chosen.seats} of {max(most)} requests of a server: with --kv-dtype fp8 "
        f"for {best.seats}, and a request takes {times}"
    )


def _unknown(question: AdviseQuery, likely: tuple[TypicalGain, ...]) -> str:
    """That no acceptance is known, and the gain of a typical draft; empty if one is."""
    if not without_acceptance(question):
        return ""
    return f"; no acceptance is known for {question.model}{likely_text(likely)}"


def _of(served: Served) -> str:
    """The GPUs, their layout, and what they reach."""
    row = served.row
    layout = served.candidate.layout
    gpus = "1 GPU" if layout.gpus == 1 else f"{layout.gpus} GPUs"
    needs = f"{gpus} ({layout.label()}), TPOT {seconds(served.tpot_s)}"
    if row.request_rate is None:
        return needs
    return f"{needs}, at {row.requests_per_s / row.saturation_rate:.0%} of saturation"


def _in_words(question: AdviseQuery) -> str:
    """The load and its limits."""
    if question.request_rate is not None:
        load = request_rate(question.request_rate)
    else:
        load = clients(question.clients or 0)
    limits = ", ".join(f"{name} {limit:g} ms" for name, limit in question.latency_limits_ms.items())
    within = f" within {limits}" if limits else ""
    cached = ""
    if question.prefix_len:
        whose = "" if question.prefix_hits == 1.0 else f" in {question.prefix_hits:.0%} of the prompts"
        cached = f" ({question.prefix_len} shared{whose})"
    return f"{load} of {question.input_len}{cached} + {question.output_len} tokens{within}"


def why_insufficient(question: AdviseQuery, served: Sequence[Served], candidates: Candidates) -> str:
    """Why no layout serves the load: memory, or the limits, and how many GPUs would."""
    alone = _one_request(question, candidates)
    if not any(priced.fits.any() for priced in alone):
        return why_infeasible(question, alone, [], candidates.skips)
    if not served:
        fastest = min(float(priced.tpot_s.min()) for priced in alone)
        return (
            f"no number of servers serves {_in_words(question)}; the TPOT of one request alone without a "
            f"draft is {seconds(fastest)}"
        )
    best = max(served, key=lambda s: (s.row.slo_share or 0.0, s.row.requests_per_s))
    fewest = min(_enough_gpus(question, served), default=None)
    enough = "" if fewest is None else f"; {fewest} would"
    share = ""
    if best.row.slo_share is not None:
        share = f" ({best.row.slo_share:.0%} of the requests within the limits)"
    these = "1 GPU does not" if question.gpus == 1 else f"{question.gpus} GPUs do not"
    others = f"{enough}{_fewer_clients(question, candidates)}{_in_fp8(question, candidates, fewest)}"
    return f"{these} serve {_in_words(question)}{share}{others}"


def _enough_gpus(question: AdviseQuery, served: Sequence[Served]) -> list[int]:
    """The GPUs that suffice, by more of the given servers and, in the closed form, by servers of any size."""
    needed = [s.needed_gpus for s in served if s.needed_gpus is not None]
    return needed + [each.candidate.layout.gpus for each in _of_any_size(question)]


def _of_any_size(question: AdviseQuery) -> list[Served]:
    """As many servers of each layout as the load needs without a draft, by the closed form."""
    counted = replace(question, gpus=None)
    try:
        found = find_candidates(counted)
        counts = [estimated(counted, candidate, drafts=False) for candidate in found.baselines]
    except InputError:
        return []
    return [each for each in counts if each is not None and each.suffices]


def _on_fewer_gpus(question: AdviseQuery) -> str:
    """The fewest GPUs that serve a rate without a draft, if these are fewer than given; empty for the lowest
    latency, to which all of them help.
    """
    if question.request_rate is None or question.gpus is None or question.objective == "latency":
        return ""
    fewer = [each for each in _of_any_size(question) if each.candidate.layout.gpus < question.gpus]
    if not fewer:
        return ""
    fewest = min(fewer, key=lambda each: (each.candidate.layout.gpus, each.request_s))
    return f"; fewer would suffice without a draft: {_of(fewest)}"


def _fewer_clients(question: AdviseQuery, candidates: Candidates) -> str:
    """How many clients the devices would serve within the limits; empty for a rate or if they serve none."""
    if question.clients is None or not question.latency_limits_ms:
        return ""
    drafted = [c for c in candidates.drafted if question.may_choose(c.runs)]
    most = [most_clients(question, candidate, drafts=False) for candidate in candidates.baselines]
    most += [most_clients(question, candidate, drafts=True) for candidate in drafted]
    return f"; about {clients(max(most))} would be within them" if any(most) else ""


def _in_fp8(question: AdviseQuery, candidates: Candidates, enough: int | None) -> str:
    """What FP8 weights would change, by the closed form; empty if the question names a format or the model's
    own is not one of 16 bits. enough: the GPUs that suffice without them.
    """
    if question.weights is not None or load_model(question.model).weights not in UNQUANTISED:
        return ""
    smaller = replace(question, weights="fp8")
    try:
        found = find_candidates(smaller, [c.layout for c in candidates.baselines])
        served = [estimated(smaller, candidate, drafts=False) for candidate in found.baselines]
        allowed = [candidate for candidate in found.drafted if question.may_choose(candidate.runs)]
        served += [estimated(smaller, candidate, drafts=True) for candidate in allowed]
    except InputError:
        return ""
    fitting = [each for each in served if each is not None]
    if any(each.suffices for each in fitting):
        return "; with --weights fp8 they would"
    needed = [each.needed_gpus for each in fitting if each.needed_gpus is not None]
    if not needed or (enough is not None and min(needed) >= enough):
        return ""
    return f"; with --weights fp8 {min(needed)} would"


def _one_request(question: AdviseQuery, candidates: Candidates) -> list[Priced]:
    """One request alone on every layout, without a draft."""
    alone, _ = price(candidates.baselines, [], at_batch(question, 1))
    return alone


def at_batch(question: AdviseQuery, batch: int) -> AdviseQuery:
    """The question about the time per token at one batch instead of a load, without bounds."""
    whole = replace(question, prefix_len=None, prefix_hits=1.0)
    one = replace(whole, request_rate=None, clients=None, input_len=None, output_len=None, slo=None)
    return replace(one, batch=(batch,), max_tpot_ms=None, objective="latency")
