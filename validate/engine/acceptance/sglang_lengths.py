"""The draft length of an SGLang server, as its requests or its metrics state it, or as it follows from the
accept lengths and accept rates that it reports.
"""

import statistics
from collections.abc import Sequence

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.acceptance.sglang_log import LogLine, gauges_as_lines, log_lines
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.text import is_count, parse_objects

LEAST_RATE = 0.1
"""Smallest accept rate with which a log line determines the draft length."""
ROUNDED_SHARE = 0.02
"""Rounding error of a line, as a share of the drafted tokens."""
ROUNDED_TOKENS = 0.1
"""Rounding error of a line, in tokens divided by the accept rate."""
HALF_DECIMAL = 0.005
"""Rounding error of an accept rate, which has two decimals."""
LONGEST_DRAFT = 64
"""Longest draft length that is compared with the rates of a log."""


def draft_length(text: str) -> int | None:
    """The draft length that requests or a page state, or that follows from the accept lengths and accept
    rates of a log or page. None if they do not determine it.
    """
    for find in (_of_requests, _of_page, _best_fit):
        if (length := find(text)) is not None:
            return length
    return None


def possible_lengths(text: str) -> list[int]:
    """The draft lengths that agree with the accept lengths and accept rates of a log or page."""
    return _lengths_of(_decisive_lines(text))


def agree(lines: Sequence[LogLine], gamma: int) -> bool:
    """Whether all accepted lengths and rates belong to this draft length.

    Before April 2026, SGLang counts the bonus token in the accept rate: length / (gamma + 1). Later versions
    do not count it: (length - 1) / gamma (sglang#23530). All lines of a log have the same definition.
    """
    decisive = [line for line in lines if line.rate >= LEAST_RATE]
    without_bonus = all(_near(line.length - 1, line.rate, gamma) for line in decisive)
    with_bonus = all(_near(line.length, line.rate, gamma + 1) for line in decisive)
    return without_bonus or with_bonus


def _near(tokens: float, rate: float, drafted: int) -> bool:
    """Whether a rate is the share of `tokens` in the drafted tokens, within the rounding of a line."""
    return abs(tokens / rate - drafted) <= ROUNDED_SHARE * drafted + ROUNDED_TOKENS / rate


def _of_requests(text: str) -> int | None:
    """Drafted tokens of a verification, if all requests of a text state the same number; None otherwise."""
    if "spec_num_proposed_drafts" not in text:
        return None
    try:
        requests = parse_objects("", text)
    except (InputError, ValueError):  # no JSON: `sglang.read` raises the error
        return None
    lengths = set()
    for request in requests:
        keys = ("spec_num_proposed_drafts", "spec_verify_ct")
        counts = [value_at(request.get("meta_info", request), key) for key in keys]
        proposed, passes = (count if is_count(count) else 0 for count in counts)
        lengths.add(proposed / passes if passes else 0)
    length, *others = lengths
    return int(length) if not others and length >= 1 and length == int(length) else None


def _of_page(text: str) -> int | None:
    """The number of draft steps, if all servers of a page state the same number; None otherwise."""
    steps = {value for _, value in samples("", text, "sglang:spec_num_steps")}
    if len(steps) != 1:
        return None
    (length,) = steps
    return int(length) if length >= 1 else None


def _best_fit(text: str) -> int | None:
    """The draft length that fits the accept lengths and accept rates of all lines best. None if no length
    agrees with all lines, or if another one fits about as well: its misfit is less than twice that of the
    best one, or less than the rounding of the lines.
    """
    lines = _decisive_lines(text)
    misfits = sorted((_misfit(lines, gamma), gamma) for gamma in _lengths_of(lines))
    if not misfits:
        return None
    (least, length), *others = misfits
    is_clear = not others or max(2 * least, _rounding(lines)) <= others[0][0]
    return length if is_clear else None


def _decisive_lines(text: str) -> list[LogLine]:
    """The lines of a log and the gauges of a page whose accept rate determines the draft length."""
    return [line for line in (*log_lines(text), *gauges_as_lines(text)) if line.rate >= LEAST_RATE]


def _lengths_of(lines: list[LogLine]) -> list[int]:
    """The draft lengths that agree with all of these lines; empty without lines."""
    return [gamma for gamma in range(1, LONGEST_DRAFT + 1) if lines and agree(lines, gamma)]


def _misfit(lines: list[LogLine], gamma: int) -> float:
    """The mean relative distance of the lines from a draft length, with the definition of the accept rate
    that fits better (see `agree`).
    """
    drafted = [(line.length - 1) / line.rate for line in lines]
    with_bonus = [line.length / line.rate for line in lines]
    return min(_relative_distance(drafted, gamma), _relative_distance(with_bonus, gamma + 1))


def _rounding(lines: list[LogLine]) -> float:
    """The mean misfit that can come from the two decimals of a line's accept rate."""
    return statistics.fmean(HALF_DECIMAL / line.rate for line in lines)


def _relative_distance(values: list[float], wanted: int) -> float:
    return statistics.fmean(abs(value - wanted) / wanted for value in values)
