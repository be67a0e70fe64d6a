"""Acceptance as it is typed: ``0.8``, ``0.8/0.7/0.5``, ``0.6x3.5`` or ``tree:0.6/0.1``."""

from collections.abc import Sequence
from typing import Any

from perfmodel.answers.question.query import GIVEN
from perfmodel.errors import InputError, refuse
from perfmodel.parse import items, parse_numbers
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.tree import TreeAcceptance


def parse_rate(given: str | float, flag: str) -> Acceptance | TreeAcceptance:
    """One rate, by position, n-gram hits x run length, or a tree's by rank. Raises InputError naming
    `flag`.
    """
    text = str(given)
    form, separator = (
        ("tree", "/") if text.startswith("tree:") else ("n-gram", "x") if "x" in text else ("rate", "/")
    )
    try:
        numbers = [float(part) for part in text.removeprefix("tree:").split(separator)]
    except ValueError:
        numbers = []
    if not numbers or (form == "n-gram" and len(numbers) != 2):
        raise refuse(
            flag, None, "a rate 0.8, by position 0.8/0.7/0.5, hit x run 0.6x3.5, or tree:0.6/0.1", text
        )
    source = f"rate {text} {GIVEN}"
    try:
        if form == "tree":
            return TreeAcceptance.of(numbers, source)
        if form == "n-gram":
            return Acceptance.from_ngram(numbers[0], numbers[1], source)
        if len(numbers) == 1:
            return Acceptance.from_alpha(numbers[0], source)
        return Acceptance.from_positions(numbers, source)
    except InputError as error:
        raise InputError(f"{flag}: {error.as_flags}") from None


def parse_chain_rate(given: str | float, flag: str, instead: str) -> Acceptance:
    """As `parse_rate`, without trees, whose place is `instead`."""
    acceptance = parse_rate(given, flag)
    if isinstance(acceptance, TreeAcceptance):
        raise InputError(f"{flag}: chains only, a tree's acceptance belongs to {instead}")
    return acceptance


def given_rate(given: str | float | None) -> Acceptance | None:
    """``--rate`` of a chain, where that is given."""
    return (
        None
        if given is None
        else parse_chain_rate(given, "--rate", "`perfmodel tree` and `perfmodel advise`")
    )


def parse_tree_rates(given: str | Sequence[Any], flag: str) -> TreeAcceptance:
    """P(accepted) by rank of the child: numbers, or text with commas. Raises InputError naming `flag`."""
    rates = parse_numbers(given, flag) if isinstance(given, str) else tuple(items(given))
    try:
        return TreeAcceptance.of(rates, f"rates {GIVEN}")
    except InputError as error:
        raise InputError(f"{flag}: {error.as_flags}") from None
