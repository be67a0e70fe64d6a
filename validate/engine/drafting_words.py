"""Finds words about a draft near a reported speed: whether a draft ran, its length, and the accepted
share.
"""

import re
from collections.abc import Iterator

from perfmodel.validate.engine.timing import GivenFacts, drafted_length, needed

LONGEST_HEADING = 120
"""Largest number of characters in a line that names a part of a text."""
_ALONE = re.compile(
    r"\b(?:without|baseline|vanilla|plain|off|autoregressive|non[- ]spec\w*"
    r"|no[- _]?(?:mtp|draft\w*|spec\w*|eagle\S*))\b"
    r"|\bw/o\b",
    re.I,
)
_DRAFTING = re.compile(
    r"\b(?:mtp|nextn|spec\w*|draft\w*|eagle\S*|dflash\S*|dspark|n-?gram|medusa)\b"
    r"|\b(?:with|on)(?= it\b|\s*(?:[:,;.=(]|$))",
    re.I,
)
_LENGTH = re.compile(
    r"\b(?:num_speculative_tokens|speculative[-_]num[-_]steps|(?<!speculative[-_])num[-_]draft[-_]tokens"
    r"|(?:spec-)?draft-n-max|draft-max|n[-_]max|gamma|n|k)\W{1,3}(?P<length>\d{1,2})"
    r"\b(?!\.\d)|\b(?:mtp|nextn)[=(](?P<of_mtp>\d{1,2})\b(?!\.\d)"
    r"|\b(?:mtp|nextn|eagle-?[23]?|dflash2?|dspark) \((?P<of_kind>\d{1,2})(?: (?:draft(?:ed)? )?tokens?|\))"
    r"|(?<![\d/.])(?P<before>\d{1,2}) (?:speculative|draft(?:ed)?)(?: tokens?\b|(?=\s*(?:$|[|,;:)\n])))",
    re.I,
)
_SHARE = re.compile(
    r"\bacc(?:ept\w*)?(?: rate| ratio)?\W{1,3}(?:(?:of|is|was) \W?)?(?P<share>\d+(?:\.\d+)?) ?(?P<percent>%)?"
    r"|(?P<share_before>\d+(?:\.\d+)?) ?% (?:of (?:the )?drafts? )?acc(?:ept\w*)?\b",
    re.I,
)
_MEAN = re.compile(
    r"(?<!drafted )\b(?:acc(?:ept\w*)? len(?:gth)?|(?-i:AL)|tokens per (?:iteration|step))\W{1,3}"
    r"(?:(?:of|is|was) \W?)?(?P<mean>\d+(?:\.\d+)?)(?! ?%)",
    re.I,
)
_EARLY = re.compile(r"\bp[-_]min\W{1,3}0?\.(?=\d*[1-9])", re.I)
"""The option with which drafts of llama.cpp end before an unlikely token. At 0, they do not."""
_DRAFTED = re.compile(
    r"\bdrafted (?P<mean>\d+(?:\.\d+)?) (?:tokens )?(?:per|each|/) ?(?:iteration|step|pass|draft)\b"
    r"|\b(?:mean|average|avg\.?) draft(?:ed)? (?:len(?:gth)?|tokens)\W{1,3}(?:(?:of|is|was) )?"
    r"(?P<mean_behind>\d+(?:\.\d+)?)",
    re.I,
)
"""The mean length of drafts, which is below the longest length if drafts end early."""

_TOKENS = re.compile(r"(?<![a-z])(?:len(?:gth)?|tokens)(?![a-z])", re.I)
"""If a name contains one of these words, its figures are tokens per iteration instead of shares."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def is_drafting(words: str) -> bool | None:
    """Whether a text is about decoding with a draft (True) or without one (False); None if it does not
    say.
    """
    if _ALONE.search(words):
        return False
    return True if _DRAFTING.search(words) else None


def stops_early(words: str) -> bool:
    """Whether drafts end before their longest length. The text then states only this longest length."""
    return _EARLY.search(words) is not None


def stated(words: str, gamma: int | None = None) -> GivenFacts:
    """The draft length and the acceptance that a text states. A value that the text states differently
    several times is left out.

    - gamma: the draft length of an accepted share, if the text states no length.

    The length of drafts that end early is the mean of their lengths.
    """
    lengths = {
        int(one["length"] or one["of_mtp"] or one["of_kind"] or one["before"])
        for one in _LENGTH.finditer(words)
    }
    length = lengths.pop() if len(lengths) == 1 and not stops_early(words) else None
    drafted: float | None = gamma if length is None else length
    mean_lengths = {float(one["mean"] or one["mean_behind"]) for one in _DRAFTED.finditer(words)}
    if len(mean_lengths) == 1 and (mean := mean_lengths.pop()) > 0:
        drafted, length = mean, drafted_length(mean)
    means = {float(one["mean"]) for one in _MEAN.finditer(words)}
    shares = set(_shares(words))
    if drafted is not None and len(shares) == 1 and not means:
        means = {1.0 + drafted * shares.pop()}
    return GivenFacts(gamma=length, accepted=means.pop() if len(means) == 1 else None)


def states_acceptance(words: str) -> bool:
    """Whether a text states an accepted share or the tokens per iteration."""
    return any(_shares(words)) or _MEAN.search(words) is not None


def _shares(words: str) -> Iterator[float]:
    """Shares of drafted tokens, each 0 to 1."""
    for one in _SHARE.finditer(words):
        if one["share_before"] or one["percent"]:
            yield float(one["share_before"] or one["share"]) / 100
        elif "." in one["share"] and float(one["share"]) <= 1:
            yield float(one["share"])


def accepted_tokens(name: str, cell: str, length: int) -> float | None:
    """The tokens per iteration that follow from a cell of a table. The cell has tokens per iteration if the
    name of the column says so, and otherwise a share of the drafted tokens (0.72 or 72 %). None if it has no
    number.
    """
    figure = _FIGURE.search(cell)
    if figure is None:
        return None
    value = float(figure[0])
    if _TOKENS.search(name):
        return value
    return 1.0 + length * (value / 100 if value > 1 else value)


def drafted_tokens(where: str, words: str, facts: GivenFacts) -> int:
    """The draft length that a text or the command line states. Raises MissingFact if neither does."""
    return round(needed(where, "gamma", stated(words).gamma or facts.gamma))
