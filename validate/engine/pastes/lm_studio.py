"""The statistics that LM Studio shows under an answer, and that ``lms chat --stats`` prints.

They are ``32.14 tok/sec • 512 tokens • 0.45s to first token``, or ``Tokens/Second: 26.84`` with ``Prompt
Tokens: 26`` and ``Predicted Tokens: 129``.
"""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.desktop import iterations_of
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.text import is_json
from perfmodel.validate.engine.timing import (
    GivenFacts,
    RequestLengths,
    SpeculatedTokens,
    Timing,
    drafted_length,
    needed,
    speculation,
)

_SHOWN = re.compile(
    r"(?<![\d.])(?P<rate>[\d.]+)\s*tok/s(?:ec)?\W+(?P<tokens>\d+)\s*tokens\W+"
    r"(?P<first>[\d.]+)\s*s(?:ec)? to first token"
    r"(?:(?:(?!tok/s).)*?Accepted (?P<accepted>\d+)/(?P<drafted>\d+) draft tokens)?",
    re.S,
)
_PRINTED = re.compile(
    r"Tokens/Second:\s*(?P<rate>[\d.]+)"
    r"(?:.*?Time to First Token:\s*(?P<first>[\d.]+)\s*s)?"
    r"(?:.*?Prompt Tokens:\s*(?P<prompt>\d+))?.*?Predicted Tokens:\s*(?P<tokens>\d+)"
    r"(?:\s*Total Tokens:\s*\d+)?"
    r"(?:\s*Total Draft Tokens:\s*(?P<drafted>\d+))?(?:\s*Accepted Draft Tokens:\s*(?P<accepted>\d+))?",
    re.S,
)


class LmStudio(TextForm):
    """Each match is one answer. The text does not show the engine (llama.cpp or MLX), so the user gives
    ``--engine``. If the length of the prompt or the counts of a draft are missing, the user gives ``input=N``
    or ``gamma=N,accepted=X``.
    """

    title = "statistics of LM Studio"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        bare = not is_json(text)
        return bare and any(form.search(text) for form in (_SHOWN, _PRINTED))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        answers = [*_SHOWN.finditer(text), *_PRINTED.finditer(text)]
        return [_step(where, answer, facts) for answer in answers]


def _step(where: str, answer: re.Match[str], facts: GivenFacts) -> Timing:
    tokens, rate = (number(where, name, answer[name]) for name in ("tokens", "rate"))
    if not rate:
        raise refuse(where, "tok/sec", "above 0", answer["rate"])
    words = answer.groupdict()
    prompt = facts.input if words.get("prompt") is None else number(where, "Prompt Tokens", words["prompt"])
    accepted, drafted = (number(where, name, words[name] or "0") for name in ("accepted", "drafted"))
    if drafted:
        iterations = iterations_of(where, tokens, accepted)
        gamma = facts.gamma or drafted_length(drafted / iterations)
        speculated = SpeculatedTokens(gamma, min(tokens / iterations, gamma + 1.0))
    else:
        speculated = speculation(where, facts, None, None)
    lengths = RequestLengths(needed(where, "input", prompt), tokens)
    first_s = number(where, "time to first token", answer["first"] or "0") or None
    batch = facts.batch or 1.0
    return step(
        where,
        speculated.tokens_per_iteration / rate,
        batch,
        lengths,
        speculated,
        how="decoding time over iterations",
        ttft_s=first_s,
    )
