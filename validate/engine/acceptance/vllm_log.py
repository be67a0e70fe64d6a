"""Acceptance figures in the log of a vLLM server: its lines ``SpecDecoding metrics`` (0.20 to 0.33), each
with the context at which the server decoded.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.text import floats, is_count

LINE_WORDS = "SpecDecoding metrics:"
LEAST_USED = 0.01
"""Smallest share of the cache in use from which a context is computed. A line rounds the share to 0.1 %."""
_LINE = re.compile(
    rf"{LINE_WORDS}.*?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens, "
    r"Per-position acceptance rate: (?P<rates>[\d., ]*\d)"
    r"|KV cache size: (?P<size>[\d,]*\d) tokens"
    r"|Running: (?P<running>\d+) reqs.*?KV cache usage: (?P<used>[\d.]+)%"
)
"""A line that counts drafts, the line with the size of the cache, or a line with the requests that run."""


class LogLine(NamedTuple):
    """A line that counts drafts.

    - counters: the counts of its interval.
    - context: mean number of cached tokens per running request; None if it is not known.
    """

    counters: Counters
    context: float | None


def log_lines(where: str, text: str) -> list[LogLine]:
    """The lines of a log that count drafts. Raises InputError if there are none."""
    lines = list(_log_lines(where, text))
    if not lines:
        raise InputError(f"{where}: its lines 'SpecDecoding metrics' must state a rate for each position")
    return lines


def _log_lines(where: str, text: str) -> Iterator[LogLine]:
    """Every line that counts drafts. Its context follows from earlier lines: the size of the cache, the share
    in use and the number of running requests.
    """
    cache_tokens: float | None = None
    context: float | None = None
    for line in _LINE.finditer(text):
        if line["size"]:
            cache_tokens = float(line["size"].replace(",", ""))
        elif line["running"]:
            context = _context(line, cache_tokens)
        else:
            yield LogLine(_counters(where, line), context)


def _context(line: re.Match[str], cache_tokens: float | None) -> float | None:
    """Mean number of cached tokens per running request; None if the size of the cache is not known, or if too
    little of it is in use (`LEAST_USED`).
    """
    running = float(line["running"])
    (used_percent,) = floats([line["used"]])
    used = used_percent / 100
    if cache_tokens and running and used >= LEAST_USED:
        return cache_tokens * used / running
    return None


def _counters(where: str, line: re.Match[str]) -> Counters:
    """The counters in one line. The number of drafts follows from the accepted tokens and the rates by
    position, whose sum is the number of accepted tokens per draft. Raises InputError.
    """
    words = filter(None, line["rates"].replace(" ", "").split(","))
    accepted, drafted, *rates = floats([line["accepted"], line["drafted"], *words])
    if not all(map(is_count, [accepted, drafted, *rates])) or max(rates) > 1:
        raise refuse(where, "SpecDecoding metrics", "counts, and rates from 0 to 1 by position", line[0])
    drafts = accepted / sum(rates) if sum(rates) else drafted / len(rates)
    return Counters(drafts, tuple(drafts * rate for rate in rates), drafted)
