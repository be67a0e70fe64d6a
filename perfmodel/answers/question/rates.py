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
        raise refuse(flag, None, "a rate 0.8, by position 0.8/0.7/0.5, or hit x run 0.6x3.5", text)
    source = f"rate {text} {GIVEN}"
    try:
        if "x" in text:
            return Acceptance.from_ngram(numbers[0], numbers[1], source)
        if len(numbers) == 1:
            return Acceptance.from_alpha(numbers[0], source)
        return Acceptance.from_positions(numbers, source)
    except InputError as error:
        raise InputError(f"{flag}: {error.as_flags}") from None
