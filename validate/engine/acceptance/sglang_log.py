"""The figures that SGLang 0.5 reports while it decodes: a log line every few iterations, and the gauges of
``/metrics``, which repeat the last of these lines.
"""

import re
import statistics
from typing import NamedTuple

from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.text import floats, is_count

_LINE = re.compile(
    r"Decode batch.*?#running-req: (\d+),(?:.*?#(?:full )?token: (\d+))?.*?"
    r"accept len: ([\d.]+(?=,)|\d+\.\d\d$)(?:, accept rate: ([\d.]+))?",
    re.M,
)
"""A log line. A line that was cut off in its accept length, which has two decimals, is left out."""


class LogLine(NamedTuple):
    """The figures of a log line. A figure that the line does not state is 0.

    - running: the number of running requests.
    - cached: the cached tokens of all running requests.
    - length: the tokens per iteration, including the bonus token (``accept len``).
    - rate: the accept rate, from 0 to 1. Versions define it differently (`sglang_lengths.agree`).
    """

    running: float
    cached: float
    length: float
    rate: float

    @property
    def is_finite(self) -> bool:
        """Whether all figures are plausible numbers (`is_count`)."""
        return all(map(is_count, self))


def has_log_lines(text: str) -> bool:
    """Whether a text contains a log line with an accept length."""
    return bool(_LINE.search(text))


def log_lines(text: str) -> list[LogLine]:
    """The log lines in a text."""
    return [_figures(line) for line in _LINE.finditer(text)]


def damaged_figures(text: str) -> str | None:
    """The figures of the first log line with an implausible one, as printed; None if all are plausible."""
    for line in _LINE.finditer(text):
        if not _figures(line).is_finite:
            return " ".join(filter(None, line.groups()))
    return None


def _figures(line: re.Match[str]) -> LogLine:
    return LogLine(*floats(word or "0" for word in line.groups()))


def gauges_as_lines(text: str) -> list[LogLine]:
    """The gauges of a page as one log line, with the means over the servers of the page. The list is empty if
    a gauge is missing.
    """
    lengths = [value for _, value in samples("", text, "sglang:spec_accept_length")]
    rates = [value for _, value in samples("", text, "sglang:spec_accept_rate")]
    if not (lengths and rates):
        return []
    length = statistics.fmean(lengths)
    return [LogLine(running=1.0, cached=0.0, length=length, rate=statistics.fmean(rates))]
