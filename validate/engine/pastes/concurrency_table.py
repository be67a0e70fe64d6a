"""Tables that people write by hand: the number of concurrent requests, and the TPOT or the tokens per second,
in total or per request.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.drafting_words import accepted_tokens, drafted_tokens, is_drafting, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import (
    ACCEPTED_HEADING,
    PROMPT_HEADING,
    RATE_HEADING,
    TextForm,
    bare_number,
    number,
    rows,
    tpot_names,
)
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    SpeculatedTokens,
    Timing,
    speculation,
    stated_lengths,
)

_AT_ONCE = re.compile(
    r"(?:max )?(?:conc(?:urren(?:cy|t(?: (?:requests|users))?))?|users|clients|streams)"
    r"|batch(?: ?size)?|bs|parallel(?: requests)?",
    re.I,
)
"""The heading of the column of concurrent requests."""
_OF_ENGINE = re.compile(r"input len|input_len|input throughput \(tok/s\)", re.I)
"""A column of the tables of SGLang's benchmark, which `sglang_one_batch_server` reads."""
_OF_EACH = re.compile(r"\bper[- ](?:user|request|stream|client)\b|/(?:user|req\w*|stream)\b|\beach\b", re.I)
"""Part of the heading of a column of rates per request."""
_OF_ALL = re.compile(r"\b(?:total|aggregate[d]?|overall|throughput|system|combined|all)\b", re.I)
"""Part of the heading of a column of total rates."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """A column of rates.

    - of_each: whether a rate is per request instead of the total; None if the heading says neither.
    - drafts: whether the rate was measured with a draft; None if the heading says neither.
    - has_tpot: whether the column has the TPOT of each request, in milliseconds.
    """

    name: str
    of_each: bool | None
    drafts: bool | None
    has_tpot: bool = False


@dataclass(frozen=True, slots=True)
class _Head:
    """The columns in use.

    - accepted: the column of accepted tokens; empty if there is none.
    """

    at_once: str
    rates: tuple[_Rate, ...]
    accepted: str = ""


class _Point(NamedTuple):
    """A row: the number of concurrent requests, the rate, and the cell of accepted tokens."""

    at_once: float
    rate: float
    accepted: str


class ConcurrencyTable(TextForm):
    """A row is a step of N concurrent requests. If two columns have figures with and without a draft, it is
    two steps. A column of accepted tokens belongs to the figures with a draft. If the table has the TPOT, its
    tokens per second are not used.

    The heading may not say whether a rate is the total or per request. A rate that rises with N is then the
    total, because one request does not get faster with more requests. If the rate does not rise, InputError
    asks for the missing word.
    """

    title = "table of concurrency and tokens per second or TPOT"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _head(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        head = _head(text)
        assert head
        facts = facts.over(load(text)).over(_drafting_around(text))
        steps = []
        for column in head.rates:
            points = list(_points(where, text, head, column))
            of_each = _is_of_each(where, column, points)
            lengths = stated_lengths(where, facts)
            for point in points:
                drafted = NOT_SPECULATED
                if column.drafts is not False:
                    drafted = _drafted(where, head, column, point, facts)
                tokens_per_s = point.rate if of_each else point.rate / point.at_once
                iteration_s = drafted.tokens_per_iteration / tokens_per_s
                how = "decoding time over iterations"
                steps.append(step(where, iteration_s, point.at_once, lengths, drafted, how=how))
        return steps


def _drafting_around(text: str) -> GivenFacts:
    """The draft length and the tokens per iteration in the words around the table, if they state an
    acceptance.
    """
    around = stated("\n".join(line for line in text.splitlines() if "|" not in line))
    return around if around.accepted else GivenFacts()


def _drafted(where: str, head: _Head, column: _Rate, point: _Point, facts: GivenFacts) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a rate that can have a draft. Raises InputError."""
    length = facts.gamma
    if column.drafts or (head.accepted and length is None):
        length = drafted_tokens(where, column.name, facts)
    counted = accepted_tokens(head.accepted, point.accepted, length) if length and head.accepted else None
    return speculation(where, facts, counted, length)


def _head(text: str) -> _Head | None:
    """The first heading of a table of concurrent requests and rates; None if there is none."""
    for line in text.splitlines():
        cells = [cell.strip("*` ") for cell in line.strip().strip("|").split("|")]
        at_once = [cell for cell in cells if _AT_ONCE.fullmatch(cell)]
        named = [cell for cell in cells if RATE_HEADING.search(cell) and not PROMPT_HEADING.search(cell)]
        if not at_once or any(map(_OF_ENGINE.search, cells)):
            continue
        accepted = next((cell for cell in cells if ACCEPTED_HEADING.search(cell) and cell not in named), "")
        if tpots := tpot_names(cells):
            times = [_Rate(cell, True, is_drafting(cell), has_tpot=True) for cell in tpots]
            return _Head(at_once[0], _in_use(times), accepted)
        if named:
            rates = [_Rate(cell, _stated_of_each(cell), is_drafting(cell)) for cell in named]
            return _Head(at_once[0], _in_use(rates), accepted)
    return None


def _in_use(rates: list[_Rate]) -> tuple[_Rate, ...]:
    """The columns of rates to read: one without a draft and one with a draft if the table has both, and
    otherwise one. Among several, the first column that says per request or total is read. Next to a column
    with a draft, a column that does not mention a draft has none.
    """
    if any(rate.drafts for rate in rates):
        rates = [replace(rate, drafts=bool(rate.drafts)) for rate in rates]
    kinds = [[rate for rate in rates if rate.drafts is drafts] for drafts in (False, True)]
    groups = kinds if all(kinds) else [rates]
    return tuple(_first_stated(group) for group in groups)


def _first_stated(rates: list[_Rate]) -> _Rate:
    """The first column that says per request or total; the first one of all if none does."""
    return next((rate for rate in rates if rate.of_each is not None), rates[0])


def _stated_of_each(rate: str) -> bool | None:
    """Whether a heading says that its rates are per request (True) or the total (False); None if it says
    neither.
    """
    if _OF_EACH.search(rate):
        return True
    return False if _OF_ALL.search(rate) else None


def _points(where: str, text: str, head: _Head, column: _Rate) -> Iterator[_Point]:
    """The figures in each row. Raises InputError."""
    for row in rows(text, (head.at_once, column.name)):
        at_once, rate = (number(where, name, bare_number(row[name])) for name in (head.at_once, column.name))
        for name, value in ((head.at_once, at_once), (column.name, rate)):
            if not value:
                raise refuse(where, name, "above 0", row[name])
        yield _Point(at_once, 1e3 / rate if column.has_tpot else rate, row.get(head.accepted, ""))


def _is_of_each(where: str, column: _Rate, points: list[_Point]) -> bool:
    """Whether the rates are per request. Raises InputError if neither the heading nor the rates show it."""
    if column.of_each is not None:
        return column.of_each
    if all(point.at_once == 1 for point in points):
        return True
    if max(points).rate > min(points).rate:
        return False
    asked = f"'total {column.name}' or '{column.name} per user'"
    raise InputError(
        f"{where}: {column.name}: must say whether it is of all requests or of one: write {asked}"
    )
