"""Finds the load in the words near a reported speed: the number of concurrent requests, and the lengths of
prompts and answers.
"""

import re
from collections.abc import Iterable

from perfmodel.validate.engine.timing import GivenFacts

_COUNT = r"(?P<count>\d{1,5})\b(?![.,]?\d|\s*(?:[-–/,]|to\b|and\b)\s*\d)"
"""A number that does not begin a range or a list."""
_AT_ONCE = (
    re.compile(
        rf"\b(?:(?:max )?concurren(?:cy|t (?:requests|users))|batch(?:[- ]size)?|bs|clients|streams)"
        rf"(?:\s*[:=]\s*|\s+(?:of |is )?){_COUNT}(?! ?(?:tokens?|k\b|ms|s\b|%|t/s|tok))",
        re.I,
    ),
    re.compile(rf"(?<![-\w])c(?:onc)? ?= ?{_COUNT}", re.I),
    re.compile(
        r"(?<![\d.,/–-])(?P<count>\d{1,5})(?: (?:concurrent|parallel|simultaneous))? "
        r"(?:concurrent|parallel|simultaneous|clients|users|streams)\b",
        re.I,
    ),
)
_ALONE = re.compile(r"\b(?:single|one)[- ](?:stream|request|user|client|sequence)\b", re.I)
_TOKENS = (
    r"(?P<tokens>\d+(?:,\d{3})*(?:\.\d+)?)(?P<kilo> ?[kK]\b)?"
    r"(?![\d.,]*\d| ?(?:t/s|tok(?:ens?)?(?:/s|-per| per)|ms|s\b|%|x\b))"
)
"""A number of tokens that is no speed, time or share."""
_PROMPT = (
    re.compile(
        rf"\b(?:isl|(?:random[-_])?input[-_ ]?(?:len(?:gth)?|tokens)?|(?<!num[-_ ])prompts?(?: len(?:gth)?)?)"
        rf"(?:\s*[:=]\s*|\s+(?:of |is |are )?)(?:~|≈|about |approx\.? )?{_TOKENS}",
        re.I,
    ),
    re.compile(
        rf"(?<![\d.,]){_TOKENS}[- ](?:tokens? )?"
        r"(?:in\b(?= ?/)|input\b|prompt\b|(?<=k )prompts\b|tokens? prompts\b)",
        re.I,
    ),
)
_NO_LIMIT = r"\b(?! ?(?:w(?!ith\b)|[sl]))"
"""No word such as window, size or limit follows."""
_CACHED = (
    re.compile(
        rf"(?:\bat|@) ?(?:~|≈|about )?{_TOKENS} (?:tokens? )?(?:of )?(?:context|ctx|depth){_NO_LIMIT}", re.I
    ),
    re.compile(rf"\bdepth(?: of |\s*[:=]\s*| ){_TOKENS}", re.I),
    re.compile(rf"(?<![\d.,]){_TOKENS} tokens? (?:of|in) (?:context|ctx){_NO_LIMIT}", re.I),
)
"""The cached tokens of a sequence. A window, size or limit of the context is no such number."""
_PAIR = re.compile(
    r"\b(?:isl ?[/,] ?osl|in(?:put)? ?/ ?out(?:put)?)\s*[:=]?\s*"
    r"(?P<prompt>\d[\d,]*)(?P<prompt_kilo>k?) ?[/,] ?(?P<answer>\d[\d,]*)(?P<answer_kilo>k?)\b",
    re.I,
)
"""Both lengths behind both names, such as ``ISL/OSL = 2048/256``."""
_ANSWER = (
    re.compile(
        rf"\b(?:osl|(?:random[-_])?output[-_ ]?(?:len(?:gth)?|tokens)?|max[-_]tokens)"
        rf"(?:\s*[:=]\s*|\s+(?:of |is |are )?)(?:~|≈|about |approx\.? )?{_TOKENS}",
        re.I,
    ),
    re.compile(rf"(?<![\d.,]){_TOKENS}[- ](?:tokens? )?(?:out|output)\b", re.I),
)


def load(words: str) -> GivenFacts:
    """The load that a text states. A value that the text states differently several times is left out."""
    counts = {float(found["count"]) for pattern in _AT_ONCE for found in pattern.finditer(words)}
    if not counts and _ALONE.search(words):
        counts = {1.0}
    others = _PAIR.sub(" ", words)
    prompts = _lengths(_PROMPT, others) or _lengths(_CACHED, others)
    answers = _lengths(_ANSWER, others)
    for pair in _PAIR.finditer(words):
        prompts.add(_tokens(pair["prompt"], pair["prompt_kilo"]))
        answers.add(_tokens(pair["answer"], pair["answer_kilo"]))
    return GivenFacts(batch=_only(counts - {0.0}), input=_only(prompts), output=_only(answers))


def _lengths(patterns: Iterable[re.Pattern[str]], words: str) -> set[float]:
    """The numbers of tokens that follow or precede one of the patterns' names."""
    found = (one for pattern in patterns for one in pattern.finditer(words))
    return {length for one in found if (length := _tokens(one["tokens"], one["kilo"]))}


def _tokens(number: str, kilo: str | None) -> float:
    return float(number.replace(",", "")) * (1024 if kilo else 1)


def _only(values: set[float]) -> float | None:
    return values.pop() if len(values) == 1 else None
