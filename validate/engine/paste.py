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
class Pasted:
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


def recognised(where: str, text: str) -> Pasted:
    """Finds out what a text is. Raises InputError that names the known forms."""
    form = form_of(text)
    if form is not None:
        return Pasted(where, text, form.title, form.engine, counters=False)
    known = _json_format(where, text)
    if known is not None:
        return Pasted(where, text, known.title, known.engine, counters=False)
    counted = counts_drafts(text)
    if counted is not None:
        return Pasted(where, text, f"counters of {counted}", "", counters=True)
    read_pasted(where, text, GivenFacts())  # which refuses it
    raise AssertionError(where)


def _json_format(where: str, text: str) -> BenchFormat | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return format_of(parse_objects(where, text))
    except (InputError, json.JSONDecodeError):
        return None


def steps_of(pasted: Pasted, given: GivenFacts, gained: Gained) -> tuple[list[Timing], str]:
    """The steps of a text, and a note if their acceptance is not its own. Raises InputError for what is
    missing.
    """
    try:
        return read_pasted(pasted.where, pasted.text, given), ""
    except MissingFact as missing:
        if missing.key != "accepted":
            raise
        lacking = missing
    tokens = read_pasted(pasted.where, pasted.text, replace(given, accepted=1.0))
    known = [gained(timing) for timing in tokens]
    if not all(known):
        raise lacking
    pairs = [(timing, each) for timing, each in zip(tokens, known, strict=True) if each is not None]
    sources = "; ".join(dict.fromkeys(source for _, (_, source) in pairs))
    steps = [
        timing.replace(seconds=timing.seconds * mean, tokens_per_iteration=mean)
        for timing, (mean, _) in pairs
    ]
    return steps, f"acceptance is not in the text; taken: {sources}"


def compared(query: Query, timing: Timing) -> str:
    """A step in words, against its prediction."""
    asked = replace(
        query,
        batch=max(round(timing.batch), 1),
        context=max(round(timing.context), 1),
        gamma=timing.gamma,
        alpha=None if timing.gamma else query.alpha,
        rate=None,
        acceptance=None,
        task=None,
        tokens_per_iteration=timing.tokens_per_iteration if timing.gamma else None,
    )
    answer = whatif(asked)
    middle, low, high = _predicted(answer, timing.gamma)
    words = f"{timing.name}: {seconds(timing.seconds)} per iteration"
    if timing.gamma:
        words += f", {timing.tokens_per_iteration:.2f} tokens per iteration"
    times = timing.seconds / middle
    if low <= timing.seconds <= high:
        verdict = "within it"
    elif timing.seconds > high:
        verdict = f"{times:.1f} times as long"
    else:
        verdict = f"{times:.2f} times as long"
    return f"{words}; predicted {seconds(middle)} ({seconds(low)} to {seconds(high)}): {verdict}"


def _predicted(answer: WhatIf, gamma: int) -> tuple[float, float, float]:
    """Seconds of an iteration, or of the baseline's step, with their interval."""
    middle = answer.iteration_s if gamma else answer.ar_tpot_s
    low, high = (answer.iteration_interval if gamma else answer.ar_tpot_interval) or (middle, middle)
    return middle, low, high


def compared_prompts(query: Query, prompts: list[PromptTiming], drafts: bool) -> list[str]:
    """Prompts in words, against their predictions, which have no interval."""
    scenario = resolve_costs(query)
    return [
        f"prompt of {prompt.tokens:.0f} tokens"
        + (f" behind {prompt.cached:.0f} cached" if prompt.cached else "")
        + f": {seconds(prompt.seconds)}; predicted {seconds(predicted_prompt_s(scenario, prompt, drafts))}"
        for prompt in prompts
    ]


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
