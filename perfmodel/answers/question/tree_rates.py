"""Reads the acceptance of a tree of drafted tokens, such as ``0.6,0.1``."""

from collections.abc import Sequence
from typing import Any

from perfmodel.answers.question.rates import GIVEN
from perfmodel.errors import InputError
from perfmodel.parse import items, parse_numbers
from perfmodel.speculation.tree import TreeAcceptance


def parse_tree_rates(given: str | Sequence[Any], flag: str) -> TreeAcceptance:
    """Reads the probabilities that the first, second and further children of a tree node are accepted. The
    input is a sequence of numbers or a text with commas. Raises InputError for other input. The message
    begins with `flag`.
    """
    rates = parse_numbers(given, flag) if isinstance(given, str) else tuple(items(given))
    try:
        return TreeAcceptance.of(rates, f"rates {GIVEN}")
    except InputError as error:
        raise InputError(f"{flag}: {error.as_flags}") from None
