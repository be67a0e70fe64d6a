"""Reads an acceptance that is written as text: ``0.8``, ``0.8/0.7/0.5`` or ``0.6x3.5``."""

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import Acceptance

GIVEN = "as given"
"""The source of an acceptance that the question states."""


def parse_rate(given: str | float, flag: str) -> Acceptance:
    """Reads an acceptance. ``0.8`` is one rate, and ``0.8/0.7/0.5`` are rates by position. ``0.6x3.5`` is for
    n-gram drafts: the probability of a hit, and the accepted tokens per hit. Raises InputError for other
    text. The message begins with `flag`.
    """
    text = str(given)
    try:
        numbers = [float(part) for part in text.replace("x", "/").split("/")]
    except ValueError:
        numbers = []
    if not numbers or ("x" in text and (text.count("x") != 1 or len(numbers) != 2)):
        allowed = f"a rate 0.8, by position 0.8/0.7/0.5, or hit x run 0.6x3.5{_of_all_drafts(text)}"
        raise refuse(flag, None, allowed, text)
    source = f"rate {text} {GIVEN}"
    try:
        if "x" in text:
            return Acceptance.from_ngram(numbers[0], numbers[1], source)
        if len(numbers) == 1:
            return Acceptance.from_alpha(numbers[0], source)
        return Acceptance.from_positions(numbers, source)
    except InputError as error:
        raise InputError(f"{flag}: {error.as_flags}") from None


def _of_all_drafts(text: str) -> str:
    """How to write a list of falling shares with commas, in words; empty for other text. Engines print such
    lists. Their shares are of all drafts, but a rate is of the drafts whose earlier tokens were accepted.
    """
    try:
        shares = [float(part) for part in text.strip("()[] ").split(",")]
    except ValueError:
        return ""
    before = [1.0, *shares[:-1]]
    if len(shares) < 2 or not all(
        0.0 < share <= last <= 1.0 for share, last in zip(shares, before, strict=True)
    ):
        return ""
    rates = "/".join(f"{share / last:.3g}" for share, last in zip(shares, before, strict=True))
    return f" (a list that an engine printed means {rates})"
