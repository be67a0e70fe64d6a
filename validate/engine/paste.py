"""A pasted text: what it is, what was taken from it, how that compares with the prediction, and what is
missing.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError
from perfmodel.queueing.prompts import (
    engine_requests,
    layers_s,
    prompt_attention_s,
    prompt_draft_s,
    prompt_launches_s,
)
from perfmodel.reading import MAX_BYTES, read_text
from perfmodel.speculation import Scenario
from perfmodel.validate.engine.acceptance import counts_drafts
from perfmodel.validate.engine.formats import BenchFormat, format_of, read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from perfmodel.validate.engine.text import parse_objects
from perfmodel.validate.engine.timing import GivenFacts, MissingFact, Timing

STANDARD_INPUT = "-"
Gained = Callable[[Timing], tuple[float, str] | None]
"""The expected tokens per iteration of a step, and where they are from; None if they are not known."""


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text with what it is. title: its form. counters: whether it holds counts of drafts and no steps."""

    where: str
    text: str
    title: str
    engine: str
    counters: bool


def read_place(place: str) -> tuple[str, str]:
    """The text of standard input or a file. Raises InputError."""
    if place != STANDARD_INPUT:
        return place, read_text(Path(place))
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"--from -: must be at most {MAX_BYTES} bytes")
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        raise InputError("--from -: must be a text on standard input, given nothing")
    return STANDARD_INPUT, text


def recognised(where: str, text: str) -> PastedText:
    """Finds out what a text is. Raises InputError that names the known forms."""
    form = form_of(text)
    if form is not None:
        return PastedText(where, text, form.title, form.engine, counters=False)
    known = _json_format(where, text)
    if known is not None:
        return PastedText(where, text, known.title, known.engine, counters=False)
    counted = counts_drafts(text)
    if counted is not None:
        return PastedText(where, text, f"counters of {counted}", "", counters=True)
    read_pasted(where, text, GivenFacts())  # which refuses it
    raise AssertionError(where)


def _json_format(where: str, text: str) -> BenchFormat | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return format_of(parse_objects(where, text))
    except (InputError, json.JSONDecodeError):
        return None


def steps_of(pasted: PastedText, facts: GivenFacts, gained: Gained) -> tuple[list[Timing], str]:
    """The steps of a text, and a note if their acceptance is not its own. Raises InputError for what is
    missing.
    """
    try:
        return read_pasted(pasted.where, pasted.text, facts), ""
    except MissingFact as missing:
        if missing.key != "accepted":
            raise
        lacking = missing
    steps = []
    sources = []
    for per_token in read_pasted(pasted.where, pasted.text, replace(facts, accepted=1.0)):
        expected = gained(per_token)
        if expected is None:
            raise lacking
        tokens, source = expected
        sources.append(source)
        steps.append(per_token.replace(seconds=per_token.seconds * tokens, tokens_per_iteration=tokens))
    taken = "; ".join(dict.fromkeys(sources))
    return steps, f"acceptance is not in the text; taken: {taken}"


def compared(query: Query, timing: Timing) -> str:
    """A step in words, against its prediction."""
    drafting = timing.gamma > 0
    question = replace(
        query,
        batch=max(round(timing.batch), 1),
        context=max(round(timing.context), 1),
        gamma=timing.gamma,
        alpha=None if drafting else query.alpha,
        rate=None,
        acceptance=None,
        task=None,
        tokens_per_iteration=timing.tokens_per_iteration if drafting else None,
    )
    predicted_s, low_s, high_s = _predicted(whatif(question), drafting)
    words = f"{timing.name}: {seconds(timing.seconds)} per iteration"
    if drafting:
        words += f", {timing.tokens_per_iteration:.2f} tokens per iteration"
    ratio = timing.seconds / predicted_s
    if low_s <= timing.seconds <= high_s:
        verdict = "within it"
    elif timing.seconds > high_s:
        verdict = f"{ratio:.1f} times as long"
    else:
        verdict = f"{ratio:.2f} times as long"
    interval = f"{seconds(low_s)} to {seconds(high_s)}"
    return f"{words}; predicted {seconds(predicted_s)} ({interval}): {verdict}"


def _predicted(answer: WhatIf, drafting: bool) -> tuple[float, float, float]:
    """Seconds of an iteration, or of the baseline's step, with their interval."""
    if drafting:
        predicted_s = answer.iteration_s
        interval = answer.iteration_interval
    else:
        predicted_s = answer.ar_tpot_s
        interval = answer.ar_tpot_interval
    low_s, high_s = interval or (predicted_s, predicted_s)
    return predicted_s, low_s, high_s


def compared_prompts(query: Query, prompts: list[PromptTiming], drafts: bool) -> list[str]:
    """Prompts in words, against their predictions, which have no interval."""
    scenario = resolve_costs(query)
    lines = []
    for prompt in prompts:
        words = f"prompt of {prompt.tokens:.0f} tokens"
        if prompt.cached:
            words += f" behind {prompt.cached:.0f} cached"
        predicted_s = predicted_prompt_s(scenario, prompt, drafts)
        lines.append(f"{words}: {seconds(prompt.seconds)}; predicted {seconds(predicted_s)}")
    return lines


def predicted_prompt_s(scenario: Scenario, prompt: PromptTiming, drafts: bool) -> float:
    """Seconds of a prompt that is read alone."""
    of_engine = engine_requests(scenario)
    whole = prompt.cached + prompt.tokens
    attention = float(prompt_attention_s(scenario, whole))
    if prompt.cached:
        attention -= float(prompt_attention_s(scenario, prompt.cached))
    layers = float(layers_s(scenario, prompt.tokens, of_engine))
    draft = float(prompt_draft_s(scenario, prompt.tokens)) if drafts else 0.0
    return layers + attention + draft + prompt_launches_s(scenario, of_engine)
