"""Converts the acceptance figures of serving engines, each with its own convention, to this project's
acceptance file.

There is one module per engine. The `source` of the written file names the convention, so that a reader can
check the arithmetic.
"""

import os
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.reading import read_text
from perfmodel.specs import files, load_model
from perfmodel.specs.acceptance.acceptance_file import AcceptanceFile
from perfmodel.speculation.acceptance import MAX_POSITIONS
from perfmodel.validate.engine.acceptance import llama_cpp, sglang, sglang_lengths, vllm, vllm_means
from perfmodel.validate.engine.acceptance.contexts import Contexts, MissingContexts
from perfmodel.validate.engine.acceptance.counters import (
    AcceptanceSubject as AcceptanceSubject,
    states_positions,
)
from perfmodel.validate.engine.acceptance.vllm_printed import OF_BENCH
from perfmodel.validate.engine.cache_size import printed_draft_length

MODULES: dict[str, Any] = {"vllm": vllm, "llama.cpp": llama_cpp, "sglang": sglang}
"""Engine -> its module. Each module has `WORDS`; a text of the engine contains one of them. Its function
`read(where, text, subject)` returns a `CountedText`.
"""


def import_file(path: Path, format: str | None, subject: AcceptanceSubject) -> AcceptanceFile:
    """Reads the acceptance figures in one file. Raises InputError, which names the file and the expected
    content.

    - format: a key of `MODULES`; None finds it from the content.
    """
    if format is not None and format not in MODULES:
        raise unknown_name("--format", "format", format, MODULES)
    for flag, name in (("--target", subject.target), ("--draft", subject.draft)):
        if not name.strip():
            raise refuse(flag, None, "a name", name)
    if not 1 <= subject.gamma <= MAX_POSITIONS:
        raise refuse("--gamma", None, f"from 1 to {MAX_POSITIONS}", subject.gamma)
    return import_text(str(path), read_text(path), format, subject)


def import_text(where: str, text: str, format: str | None, subject: AcceptanceSubject) -> AcceptanceFile:
    """The same as `import_file`, for a text.

    - where: the file or URL of the text, for messages. Its last part becomes part of the `source`.
    """
    format = format or _printed_by(text) or ("vllm" if OF_BENCH in text else None)
    if format is None:
        raise InputError(
            f"{where}: holds no acceptance figures known here; give --format ({', '.join(MODULES)})"
        )
    if subject.lengths and format != "vllm":
        raise refuse(
            "--lengths", None, "left out: only vLLM's counters can be taken apart by draft length", format
        )
    counted = MODULES[format].read(where, text, subject)
    rows = [_row(where, subject, row.rates, row.contexts) for row in counted.rows]
    source = f"{os.path.basename(where)}, {counted.convention}"
    data = {"schema_version": 1, "source": source, "rows": rows}
    return files.parse(AcceptanceFile, data, where)


def counts_drafts(text: str) -> str | None:
    """The engine whose figures about drafts a text contains; None if it contains none, or only those of
    SGLang's page that are 0 without a draft.
    """
    return None if sglang.is_page_without_drafts(text) else _printed_by(text)


def _printed_by(text: str) -> str | None:
    """The engine one of whose words a text contains; None if it contains none."""
    for name, module in MODULES.items():
        if any(word in text for word in module.WORDS):
            return name
    return None


def draft_length(text: str) -> int | None:
    """The draft length that follows from the counts of a log; None if they do not determine it."""
    return sglang_lengths.draft_length(text) or llama_cpp.draft_length(text) or vllm_means.draft_length(text)


def served_gamma(where: str, text: str, given: int | None) -> int | None:
    """The draft length that the user gave, or else the draft length that follows from a text: the one of the
    server's configuration if the counts agree with it, or else the one of the counts. None if neither is
    known but the text counts by position, which shows the length later. Raises InputError in all other cases.
    """
    if given:
        return given
    printed = printed_draft_length(text)
    if printed in possible_lengths(text):
        return printed
    counted = draft_length(text)
    if counted is not None and counted > sglang_lengths.LONGEST_DRAFT:
        raise refuse(
            where,
            "tokens per draft",
            f"at most {sglang_lengths.LONGEST_DRAFT} (is a number cut off?)",
            counted,
        )
    gamma = counted or printed
    if gamma is None and not states_positions(text):
        raise InputError(f"--gamma: must be given: {where} {_lengths_in_words(text)}")
    return gamma


def _lengths_in_words(text: str) -> str:
    """The reason why a text does not determine the draft length, in words."""
    lengths = possible_lengths(text)
    if len(lengths) < 2:
        return "does not state the draft length"
    words = " or ".join(map(str, lengths))
    return f"agrees with {words} drafted tokens (older SGLang counts the bonus token)"


def possible_lengths(text: str) -> list[int]:
    """The draft lengths that agree with a text of SGLang; empty for any other text."""
    return sglang_lengths.possible_lengths(text)


def _row(
    where: str, subject: AcceptanceSubject, rates: dict[str, Any], contexts: Contexts | None
) -> dict[str, Any]:
    """A row of an acceptance file. Raises InputError if the number of positions is not the draft length that
    the user gave, or if the contexts are unknown.
    """
    histogram = rates.get("histogram")
    if histogram and subject.gamma_given and not subject.lengths:
        positions = len(histogram) - 1
        if positions != subject.gamma:
            raise refuse("--gamma", None, f"{positions}, the positions in {where}", subject.gamma)
    if subject.context:
        contexts = Contexts.given(subject.context)
    if contexts is None:
        raise MissingContexts(
            f"--context: must be given: {where} does not state the lengths of its requests; one number, or "
            "the ends of the range that was served, such as 500,4000"
        )
    method = parse_kv(subject.draft_kv)
    return {
        "target": _name(subject.target),
        "draft": _name(subject.draft),
        "draft_kv": method.name,
        "kv_budget_tokens": method.budget,
        "context_tokens": round(contexts.mean),
        "context_range_tokens": [round(contexts.low), round(contexts.high)],
        **rates,
    }


def _name(model: str) -> str:
    """The name of a model. A path becomes the name of the model that it leads to. A path without a readable
    model stays a path, so a question with the same path finds the acceptance again.
    """
    if not files.looks_like_path(model):
        return model
    try:
        return load_model(model).name
    except InputError:  # a head, or a model that is elsewhere
        return model
