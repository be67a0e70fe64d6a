"""The lines that ``ollama run --verbose`` prints: ``eval count`` and ``eval duration`` of the answer and of
the prompt, or only ``eval rate``.
"""

import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_LINE = re.compile(
    r"^(?P<prompt>prompt )?eval (?P<what>count|duration|rate):\s+(?P<value>[\d.]+\S*)", re.M | re.I
)
_PART = re.compile(r"([\d.]+)(h|ms|m|us|µs|ns|s)")
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Units of Go's durations, such as ``1m12.3s``."""
Answer = dict[str, float]
"""Name of a figure, such as ``prompt count`` -> its value."""


class Ollama(TextForm):
    """Each `eval duration` is one answer. If there are no durations, each `eval rate` is one answer. Accepted
    tokens are not printed, so the user gives ``gamma=N,accepted=X``.
    """

    title = "timings of ollama run --verbose"
    engine = "llamacpp"
    counts_drafts = False

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(line["what"].lower() != "count" and not line["prompt"] for line in _LINE.finditer(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        return [_step(where, answer, facts) for answer in _answers(where, text)]

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        read = [(each.get("prompt count"), each.get("prompt duration")) for each in _answers(where, text)]
        return [PromptTiming(tokens, 0.0, seconds) for tokens, seconds in read if tokens and seconds]


def _answers(where: str, text: str) -> Iterator[Answer]:
    """The counts, seconds and tokens per second of each answer. An answer ends with its ``eval duration``, or
    with its ``eval rate`` if no durations are printed.
    """
    answer: Answer = {}
    lines = list(_LINE.finditer(text))
    timed = any(line["what"].lower() == "duration" and not line["prompt"] for line in lines)
    for line in lines:
        what = line["what"].lower()
        name = f"prompt {what}" if line["prompt"] else what
        read = _seconds if what == "duration" else number
        answer[name] = read(where, f"eval {name}", line["value"])
        if name == ("duration" if timed else "rate"):
            yield answer
            answer = {}


def _seconds(where: str, name: str, text: str) -> float:
    """The seconds of a duration that Go printed. Raises InputError."""
    parts = _PART.findall(text)
    if "".join(value + unit for value, unit in parts) != text:
        raise refuse(where, name, "a time such as 4.368s or 1m7.9s", text)
    return sum(number(where, name, value) * SECONDS[unit] for value, unit in parts)


def _step(where: str, answer: Answer, facts: GivenFacts) -> Timing:
    tokens = answer.get("count", 0.0)
    token_s = _token_s(where, answer)
    speculated = speculation(where, facts, None, None)
    seconds = token_s * speculated.tokens_per_iteration
    prompt = needed(where, "input", answer.get("prompt count", facts.input))
    lengths = RequestLengths(prompt, tokens or facts.output or 1.0)
    how = "decoding time over iterations"
    return step(where, seconds, facts.batch or 1.0, lengths, speculated, how=how)


def _token_s(where: str, answer: Answer) -> float:
    """The seconds per token, from the duration of an answer or else from its rate. Raises InputError."""
    if "duration" not in answer:
        if not answer["rate"]:
            raise refuse(where, "eval rate", "above 0", answer["rate"])
        return 1.0 / answer["rate"]
    tokens = answer.get("count", 0.0)
    if not tokens or not answer["duration"]:
        raise refuse(where, "eval count", "above 0, next to eval duration above 0", tokens or None)
    return answer["duration"] / tokens
