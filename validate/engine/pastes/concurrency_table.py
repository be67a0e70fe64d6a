"""A table that people write by hand: requests at once and tokens per second, of all together or of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, Timing, speculation, stated_lengths

_AT_ONCE = re.compile(r"(?:max )?(?:concurren(?:cy|t(?: (?:requests|users))?)|users|clients|streams)", re.I)
_RATE = re.compile(r"(?:\b(?:tokens?|toks?|t)/s(?:ec)?\b|\btokens per second\b|\btps\b)", re.I)
_PROMPTS = re.compile(r"\b(?:prompt|prefill|pp|input|in)\b", re.I)
_OF_EACH = re.compile(r"\bper[- ](?:user|request|stream|client)\b|/(?:user|req\w*|stream)\b|\beach\b", re.I)
_OF_ALL = re.compile(r"\b(?:total|aggregate[d]?|overall|throughput|system|combined|all)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Head:
    """The columns in use. of_each: whether the rate is that of one request; None if the head does not say."""

    at_once: str
    rate: str
    of_each: bool | None


class ConcurrencyTable(TextForm):
    """A row is a step of N requests. If the head of the rate says neither, a rate that rises with N is that
    of all requests: one request does not get faster in company. Any other table is asked about.
    """

    title = "table of concurrency and tokens per second"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _head(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        head = _head(text)
        assert head
        points = list(_points(where, text, head))
        of_each = _is_of_each(where, head, points)
        lengths = stated_lengths(where, facts)
        steps = []
        for at_once, rate in points:
            drafted = speculation(where, facts, None, None)
            tokens_per_s = rate if of_each else rate / at_once
            iteration_s = drafted.tokens_per_iteration / tokens_per_s
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, at_once, lengths, drafted, how=how))
        return steps


def _head(text: str) -> _Head | None:
    for line in text.splitlines():
        cells = [cell.strip("*` ") for cell in line.strip().strip("|").split("|")]
        at_once = [cell for cell in cells if _AT_ONCE.fullmatch(cell)]
        rates = [cell for cell in cells if _RATE.search(cell) and not _PROMPTS.search(cell)]
        if at_once and rates:
            stated = [_Head(at_once[0], rate, _says(rate)) for rate in rates]
            return next((head for head in stated if head.of_each is not None), stated[0])
    return None


def _says(rate: str) -> bool | None:
    if _OF_EACH.search(rate):
        return True
    return False if _OF_ALL.search(rate) else None


def _points(where: str, text: str, head: _Head) -> Iterator[tuple[float, float]]:
    for row in rows(text, (head.at_once, head.rate)):
        at_once, rate = (number(where, name, _bare(row[name])) for name in (head.at_once, head.rate))
        for name, value in ((head.at_once, at_once), (head.rate, rate)):
            if not value:
                raise refuse(where, name, "above 0", row[name])
        yield at_once, rate


def _bare(cell: str) -> str:
    """The number of a cell such as ``1,210 tok/s``."""
    return cell.replace(",", "").split(" ")[0]


def _is_of_each(where: str, head: _Head, points: list[tuple[float, float]]) -> bool:
    """Whether a rate is that of one request. Raises InputError if nothing tells."""
    if head.of_each is not None:
        return head.of_each
    if all(at_once == 1 for at_once, _ in points):
        return True
    (_, first), *_, (_, last) = sorted(points)[:1] + sorted(points)
    if last > first:
        return False
    asked = f"'total {head.rate}' or '{head.rate} per user'"
    raise InputError(f"{where}: {head.rate}: must say whether it is of all requests or of one: write {asked}")
