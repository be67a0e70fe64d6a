"""Words about a draft beside a speed: whether one ran, its length, and the accepted share."""

import re

from perfmodel.validate.engine.timing import GivenFacts, needed

_ALONE = re.compile(r"\b(?:without|baseline|vanilla|plain|off|no (?:mtp|draft\w*|spec\w*|eagle\S*))\b", re.I)
_DRAFTING = re.compile(
    r"\b(?:mtp|nextn|spec\w*|draft\w*|eagle\S*|dflash\S*|dspark|n-?gram|medusa)\b"
    r"|\b(?:with|on)(?= it\b|\s*(?:[:,;.=(]|$))",
    re.I,
)
_LENGTH = re.compile(
    r"\b(?:num_speculative_tokens|(?:spec-)?draft-n-max|n-max|gamma|n|k)\W{1,3}(?P<length>\d{1,2})\b(?!\.\d)",
    re.I,
)
_ACCEPTED = re.compile(r"\bacc(?:ept\w*)?(?: rate)?\W{1,3}(?:of |is )?(?P<percent>\d+(?:\.\d+)?) ?%", re.I)

_TOKENS = re.compile(r"\b(?:len(?:gth)?|tokens)\b", re.I)
"""Words of a name whose figures are tokens per iteration instead of shares."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def is_drafting(words: str) -> bool | None:
    """Whether words are about a draft; None if they say neither."""
    if _ALONE.search(words):
        return False
    return True if _DRAFTING.search(words) else None


def stated(words: str) -> GivenFacts:
    """The draft length and the acceptance that words state once."""
    lengths = {int(length["length"]) for length in _LENGTH.finditer(words)}
    shares = {float(share["percent"]) / 100 for share in _ACCEPTED.finditer(words)}
    if len(lengths) != 1:
        return GivenFacts()
    (length,) = lengths
    accepted = 1.0 + length * shares.pop() if len(shares) == 1 else None
    return GivenFacts(gamma=length, accepted=accepted)


def accepted_tokens(name: str, cell: str, length: int) -> float | None:
    """Tokens per iteration by a cell of a table: a length if its name says so, else a share of the drafted
    tokens (0.72, 72 %); None without a number.
    """
    figure = _FIGURE.search(cell)
    if figure is None:
        return None
    value = float(figure[0])
    if _TOKENS.search(name):
        return value
    return 1.0 + length * (value / 100 if value > 1 else value)


def drafted_tokens(where: str, words: str, facts: GivenFacts) -> int:
    """The draft length that words or the command line state. Raises MissingFact."""
    return round(needed(where, "gamma", stated(words).gamma or facts.gamma))
