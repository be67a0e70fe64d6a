"""Recognises a pasted text, reads the steps in it, and says which facts are missing."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from perfmodel.errors import InputError
from perfmodel.reading import MAX_BYTES, read_text
from perfmodel.validate.engine.acceptance import counts_drafts
from perfmodel.validate.engine.acceptance.sglang_lengths import LONGEST_DRAFT
from perfmodel.validate.engine.cache_size import TITLE, printed_cache_tokens
from perfmodel.validate.engine.drafting_words import stops_early
from perfmodel.validate.engine.formats import BenchFormat, format_of, read_pasted
from perfmodel.validate.engine.near_misses import lacking
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.serve_command import NO_FLAGS, question_of, slowed_by, to_be_stated
from perfmodel.validate.engine.text import NamedText, ends_early, is_json, parse_objects, plain
from perfmodel.validate.engine.timing import GivenFacts, MissingFact, Timing

STANDARD_INPUT = "-"
USUAL_CONTEXT = 1024.0
"""Assumed context of a text that states none, in tokens. The value is a choice."""
FEW_SEQUENCES = 4.0
"""Largest batch whose context is assumed. With few sequences, reading the cache takes a small part of the
time.
"""
UNPUBLISHED = (
    "no acceptance of this draft was published; the log or /metrics of the server states it (mean "
    "acceptance length)"
)
"""The place of the tokens per iteration, if the text does not state them."""
OF_EARLY_STOPS = (
    "p-min ends drafts early, so gamma is their mean length: drafted tokens / iterations, rounded"
)
"""The meaning of the draft length in a text about a server with p-min."""
PROBE = GivenFacts(batch=1.0, input=USUAL_CONTEXT, output=1.0, gamma=LONGEST_DRAFT, accepted=1.0)
"""Values for missing facts, to find out what else is missing. No text states more tokens per iteration than
this draft length allows.
"""


class ExpectedGain(NamedTuple):
    """The expected tokens per iteration of a step.

    - origin: the source of this number, in words.
    """

    tokens_per_iteration: float
    origin: str


class StepsOfText(NamedTuple):
    """The steps in a text.

    - note: the source of the steps' acceptance; empty if the text states it.
    - assumes_context: whether the context is assumed, because the text does not state it.
    """

    timings: list[Timing]
    note: str
    assumes_context: bool


Gained = Callable[[Timing], ExpectedGain | None]
"""A function that returns the expected tokens per iteration of a step; None if they are not known."""


@dataclass(frozen=True, slots=True)
class PastedText:
    """A recognised text.

    - title: the name of the text's format.
    - content: timed steps, a server's counters or throughput, or the size of its KV cache.
    """

    where: str
    text: str
    title: str
    engine: str
    content: Literal["steps", "counters", "cache size"]


def read_place(place: str) -> NamedText:
    """The text of standard input or a file. Raises InputError."""
    if place != STANDARD_INPUT:
        return NamedText(place, plain(read_text(Path(place))))
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"--from -: must be at most {MAX_BYTES} bytes")
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        raise InputError("--from -: must be a text on standard input, given nothing")
    return NamedText(STANDARD_INPUT, plain(text))


def recognised(
    where: str, text: str, hardware: str = "DEVICE", given: Mapping[str, str] = NO_FLAGS
) -> PastedText:
    """Recognises a text. Raises InputError, which names the known formats.

    - hardware, given: the device and the user's flags in the question that is printed if the text is the
      command of a server.
    """
    form = form_of(text)
    if form is not None:
        return PastedText(where, text, form.title, form.engine, "steps")
    known = _json_format(where, text)
    if known is not None:
        return PastedText(where, text, known.title, known.engine, "steps")
    counted = counts_drafts(text)
    if counted is not None:
        return PastedText(where, text, f"counters of {counted}", "", "counters")
    if Pace.of(where, text) is not None:
        return PastedText(where, text, "throughput of a server without drafts", "", "counters")
    if printed_cache_tokens(text) is not None:
        return PastedText(where, text, TITLE, "", "cache size")
    if asked := question_of(text, hardware, given):
        why = "is the command of a server, without times"
        slow = slowed_by(text)
        slower = f"; the server is slower than predicted: {'; '.join(slow)}" if slow else ""
        stated = "".join(f"; {words}" for words in to_be_stated(text, asked))
        raise InputError(f"{where}: {why}: paste its log, or ask: {asked}{stated}{slower}")
    if lacks := lacking(text):
        raise InputError(f"{where}: {lacks}")
    read_pasted(where, text, GivenFacts())  # raises InputError
    raise AssertionError(where)


def _json_format(where: str, text: str) -> BenchFormat | None:
    """The format of the JSON objects in a text; None for any other text. Raises InputError if the end of the
    JSON is missing.
    """
    if not is_json(text):
        return None
    try:
        return format_of(parse_objects(where, text))
    except (InputError, json.JSONDecodeError):
        if ends_early(text):
            raise
        return None


def steps_of(pasted: PastedText, facts: GivenFacts, gained: Gained) -> StepsOfText:
    """The steps in a text. Raises MissingFact that names all missing facts without which no step can be
    compared.

    If the text lacks the context of a few sequences, `USUAL_CONTEXT` is assumed.

    - gained: supplies the acceptance if the text does not state it.
    """
    lacking = _missing(pasted, facts)
    notes = []
    assumes_context = False
    if "input" in lacking.keys:
        probed = {key: getattr(PROBE, key) for key in lacking.keys}
        steps = read_pasted(pasted.where, pasted.text, replace(facts, **probed))
        if max(step.batch for step in steps) <= FEW_SEQUENCES:
            facts = replace(facts, input=USUAL_CONTEXT)
            assumes_context = True
            notes.append(f"the context is not in the text; assumed: {USUAL_CONTEXT:.0f} tokens (--context N)")
            lacking = _missing(pasted, facts)
    if others := [key for key in lacking.keys if key != "accepted"]:
        meaning = OF_EARLY_STOPS if "gamma" in others and stops_early(pasted.text) else ""
        raise MissingFact(lacking.where, *others, meaning=meaning)
    if not lacking.keys:
        steps = read_pasted(pasted.where, pasted.text, facts)
        return StepsOfText(steps, "; ".join(notes), assumes_context)
    steps = []
    origins = []
    for per_token in read_pasted(pasted.where, pasted.text, replace(facts, accepted=1.0)):
        if not per_token.gamma or per_token.tokens_per_iteration > 1.0:  # it states its own acceptance
            steps.append(per_token)
            continue
        expected = gained(per_token)
        if expected is None:
            raise MissingFact(lacking.where, *lacking.keys, meaning=UNPUBLISHED)
        origins.append(expected.origin)
        tokens = expected.tokens_per_iteration
        steps.append(per_token.replace(seconds=per_token.seconds * tokens, tokens_per_iteration=tokens))
    taken = "; ".join(dict.fromkeys(origins))
    notes.append(f"acceptance is not in the text; taken: {taken}")
    return StepsOfText(steps, "; ".join(notes), assumes_context)


def check_stated(pasted: PastedText, facts: GivenFacts) -> None:
    """Raises MissingFact for a text whose steps need a value that neither the text nor `facts` state."""
    lacking = _missing(pasted, facts)
    if lacking.keys:
        raise lacking


def _missing(pasted: PastedText, facts: GivenFacts) -> MissingFact:
    """All facts that the text lacks. Each missing fact is filled in to find the next one. Raises InputError
    for another fault of the text.
    """
    missing = MissingFact(pasted.where)
    filled = facts
    while True:
        try:
            read_pasted(pasted.where, pasted.text, filled)
        except MissingFact as more:
            if set(more.keys) <= set(missing.keys):
                raise
            missing = MissingFact(more.where, *missing.keys, *more.keys)
            filled = replace(filled, **{key: getattr(PROBE, key) for key in more.keys})
        except InputError:
            if missing.keys:  # a filled-in value does not fit the text
                return missing
            raise
        else:
            return missing
