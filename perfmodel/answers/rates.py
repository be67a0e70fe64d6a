"""Acceptance as it is typed: ``0.8``, ``0.8/0.7/0.5``, ``0.6x3.5``, ``tree:0.6/0.1``, or a tree's in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.answers.query import GIVEN
from perfmodel.errors import InputError, refuse
from perfmodel.parse import items, parse_numbers
from perfmodel.specs.files import read_mapping
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.tree import TreeAcceptance


def parse_rate(given: str | float, flag: str) -> Acceptance | TreeAcceptance:
    """One rate, by position, n-gram hits x run length, or a tree's by rank. Raises InputError naming `flag`."""
    text = str(given)
    form, separator = ("tree", "/") if text.startswith("tree:") else ("n-gram", "x") if "x" in text else ("rate", "/")
    try:
        numbers = [float(part) for part in text.removeprefix("tree:").split(separator)]
    except ValueError:
        numbers = []
    if not numbers or (form == "n-gram" and len(numbers) != 2):
        raise refuse(flag, None, "a rate 0.8, by position 0.8/0.7/0.5, hit x run 0.6x3.5, or tree:0.6/0.1", text)
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
    return None if given is None else parse_chain_rate(given, "--rate", "`perfmodel tree` and `perfmodel advise`")


def parse_tree_rates(given: str | Sequence[Any], flag: str) -> TreeAcceptance:
    """P(accepted) by rank of the child: numbers (or lists of them by level), text with commas, or a file with
    ``source`` and ``rates``. Raises InputError naming `flag` or the file.
    """
    if not isinstance(given, str):
        return _tree(flag, items(given), f"rates {GIVEN}")
    if not given.endswith((".json", ".yaml", ".yml")):
        return _tree(flag, parse_numbers(given, flag), f"rates {GIVEN}")
    data = read_mapping(Path(given))
    if set(data) != {"source", "rates"} or not isinstance(data["source"], str):
        raise refuse(
            given, None, "a mapping with source (text) and rates (numbers, or lists of them by level)", list(data)
        )
    return _tree(given, np.asarray(data["rates"], object).tolist(), f"{data['source']} ({given})")


def _tree(where: str, rates: Any, source: str) -> TreeAcceptance:
    try:
        return TreeAcceptance.of(rates, source)
    except InputError as error:
        raise InputError(f"{where}: {error.as_flags}") from None
