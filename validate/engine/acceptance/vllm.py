"""Acceptance figures of vLLM. The form of a text determines its reader:

- `vllm_json`: the JSON of ``vllm bench serve`` and of responses
- `vllm_printed`: the printed output of ``vllm bench serve`` and of an example script
- `vllm_log`: the log of a server
- `vllm_page`: a page of ``/metrics``
- `vllm_means`: logs and pages without rates of positions

In all texts with positions, the rate of a position is the *survival*: the number of drafts whose token at
this position was accepted, divided by the number of all drafts.
"""

from perfmodel.validate.engine.acceptance import vllm_means
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves
from perfmodel.validate.engine.acceptance.counters import (
    AcceptanceSubject,
    Counted,
    CountedText,
    Counters,
)
from perfmodel.validate.engine.acceptance.vllm_json import json_contexts, json_counters
from perfmodel.validate.engine.acceptance.vllm_log import LINE_WORDS, log_lines
from perfmodel.validate.engine.acceptance.vllm_page import page_contexts, page_counters
from perfmodel.validate.engine.acceptance.vllm_printed import (
    OF_EXAMPLE,
    printed_contexts,
    printed_counters,
)
from perfmodel.validate.engine.text import is_json

CONVENTION = "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)"
WORDS = (
    "spec_decode_",
    LINE_WORDS,
    "Speculative metrics:",
    OF_EXAMPLE,
    '"num_accepted_tokens_per_pos"',
    '"acceptance_histogram"',
)


def read(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the rows of an acceptance file. Raises InputError."""
    totals = vllm_means.of_first_engine(where, text)
    if totals is not None:
        return CountedText([Counted(totals, None)], vllm_means.TOTALS)
    mean = vllm_means.of_means(where, text, subject.gamma)
    if mean is not None:
        return CountedText([Counted(mean, served_contexts(where, text))], vllm_means.MEANS)
    return _read_positions(where, text, subject)


def read_counters(where: str, text: str) -> Counters:
    """The counters of a text with positions. Raises InputError."""
    if is_json(text):
        return json_counters(where, text)
    printed = printed_counters(where, text)
    if printed is not None:
        return printed
    if LINE_WORDS in text:
        return Counters.total([line.counters for line in log_lines(where, text)])
    return page_counters(where, text)


def served_contexts(where: str, text: str) -> Contexts | None:
    """The contexts of the requests that a text is about; None if it does not state their lengths. Raises
    InputError.
    """
    if is_json(text):
        return json_contexts(where, text)
    return printed_contexts(where, text) or page_contexts(where, text)


def _read_positions(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the rows of an acceptance file, from a text with positions. Raises InputError."""
    counts = _by_context(where, text, whole=bool(subject.context))
    for counters, _ in counts:
        counters.check(where)
    rows = []
    notes = [CONVENTION]
    for counters, contexts in counts:
        rates = counters.rates(where, subject.draft, subject.lengths)
        rows.append(Counted(rates, contexts))
        note = counters.draft_length_note(subject.lengths)
        if note and note not in notes:
            notes.append(note)
    return CountedText(rows, "; ".join(notes))


def _by_context(where: str, text: str, whole: bool) -> list[tuple[Counters, Contexts | None]]:
    """The counters of each octave of contexts in a log; for any other text, and with `whole`, all counters
    together.
    """
    if LINE_WORDS not in text or whole or is_json(text):
        return [(read_counters(where, text), served_contexts(where, text))]
    lines = log_lines(where, text)
    drafts = [line.counters.drafts for line in lines]
    groups = octaves([line.context for line in lines], drafts)
    return [(Counters.total([lines[i].counters for i in group]), contexts) for contexts, group in groups]
