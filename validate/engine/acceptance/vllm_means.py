"""Acceptance figures of vLLM without rates of positions: totals of the engine before 0.9 (V0), log lines
(0.8) and pages of metrics with totals only.

They determine the mean number of tokens per iteration. The row of an acceptance file then states the constant
acceptance rate `alpha` that gives this mean.
"""

import re
from typing import Any

from perfmodel.errors import refuse
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.counters import counts_no_draft, states_positions
from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.text import floats, is_count, is_json

TOTALS = "vLLM before 0.9: emitted tokens over drafts, bonus token included"
"""The convention of `of_first_engine`."""
MEANS = "vLLM: accepted tokens over drafts, without rates of positions"
"""The convention of `of_means`."""
_FIRST_ENGINE = re.compile(
    r"Speculative metrics: .*?Number of speculative tokens: (?P<length>\d{1,9}), Number of accepted tokens: "
    r"\d+, Number of draft tokens: (?P<drafted>\d+), Number of emitted tokens: (?P<emitted>\d+)"
)
"""A line of the engine before 0.9 (V0). Its totals count from the start of the server."""
_LINE = re.compile(
    r"SpecDecoding metrics:(?:.*?Mean acceptance length: (?P<mean>[\d.]+))?"
    r".*?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens"
)
"""A line whose counts are those of one interval."""
_DRAFTS = "vllm:spec_decode_num_drafts"
_ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"


def of_first_engine(where: str, text: str) -> dict[str, Any] | None:
    """The constant acceptance rate that gives the emitted tokens per draft of the last line of V0; None if a
    text has no such line. Raises InputError.
    """
    lines = list(_FIRST_ENGINE.finditer(text))
    if not lines:
        return None
    last = lines[-1]
    length = float(last["length"])
    drafted = float(last["drafted"])
    if not length or not drafted:
        raise counts_no_draft(where)
    tokens_per_draft = float(last["emitted"]) * length / drafted
    return _constant_rate(where, "Number of emitted tokens", tokens_per_draft, length)


def of_means(where: str, text: str, gamma: int) -> dict[str, Any] | None:
    """The constant acceptance rate of log lines or of a page without positions; None for any other text.
    Raises InputError.

    - gamma: the draft length of log lines, which do not count drafts.
    """
    if states_positions(text):
        return None
    return _of_lines(where, text, gamma) or _of_page(where, text)


def draft_length(text: str) -> int | None:
    """The draft length that a line of V0 states, or that follows from the means of log lines or of a page.
    None for any other text, and if two lines differ.
    """
    of_v0 = list(_FIRST_ENGINE.finditer(text))
    if of_v0:
        return int(of_v0[-1]["length"]) or None
    if is_json(text) or states_positions(text):
        return None
    drafts = total("", text, _DRAFTS)
    if drafts:
        return round(total("", text, _DRAFT_TOKENS) / drafts) or None
    lengths = {_length_of(line) for line in _LINE.finditer(text)} - {None}
    return lengths.pop() if len(lengths) == 1 else None


def _of_lines(where: str, text: str, gamma: int) -> dict[str, Any] | None:
    """The constant rate of all log lines together; None if there are none."""
    lines = list(_LINE.finditer(text))
    if not lines or is_json(text):
        return None
    accepted = sum(float(line["accepted"]) for line in lines)
    drafted = sum(float(line["drafted"]) for line in lines)
    if not drafted:
        raise counts_no_draft(where)
    return _constant_rate(where, "Accepted", 1.0 + accepted * gamma / drafted, float(gamma))


def _of_page(where: str, text: str) -> dict[str, Any] | None:
    """The constant rate of a page; None without drafts."""
    drafts = total(where, text, _DRAFTS)
    accepted = total(where, text, _ACCEPTED_TOKENS)
    drafted = total(where, text, _DRAFT_TOKENS)
    if not drafts or not drafted:
        return None
    return _constant_rate(where, "accepted_tokens", 1.0 + accepted / drafts, round(drafted / drafts))


def _length_of(line: re.Match[str]) -> int | None:
    """The draft length that follows from a log line, which states 1 + accepted tokens per draft as its mean
    length; None if nothing was accepted, or if a word is not a number.
    """
    mean, accepted, drafted = floats([line["mean"] or "1", line["accepted"], line["drafted"]])
    if not all(map(is_count, [mean, accepted, drafted])) or mean <= 1.0 or not accepted:
        return None
    return round(drafted * (mean - 1.0) / accepted) or None


def _constant_rate(where: str, name: str, tokens_per_iteration: float, length: float) -> dict[str, Any]:
    """The constant acceptance rate that gives these tokens per iteration, bonus token included. Raises
    InputError.

    - name: the words of the figure, for messages.
    - length: the draft length, in tokens.
    """
    if not 1.0 <= tokens_per_iteration <= length + 1.0:
        allowed = f"from 1 to {length + 1:g} for each draft of {length:g} tokens"
        raise refuse(where, name, allowed, tokens_per_iteration)
    return {"alpha": float(alpha_from_tokens_per_iteration(tokens_per_iteration, length))}
