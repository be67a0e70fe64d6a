"""The lines that ``mtp-bench.py`` prints. The script is in llama.cpp's threads about MTP
(ggml-org/llama.cpp#22673).

A line is ``code_python  pred= 192 draft= 186 acc= 128 rate=0.688 tok/s=24.4``.
"""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    RequestLengths,
    Timing,
    drafted_length,
    needed,
    speculation,
)

_LINE = re.compile(
    r"^\s*(?P<task>\S+)\s+pred=\s*(?P<tokens>\d+)\s+draft=\s*(?P<drafted>\d+)\s+acc=\s*(?P<accepted>\d+)\s+"
    r"rate=\s*\S+\s+tok/s=\s*(?P<rate>[\d.]+)",
    re.M,
)


class MtpBench(TextForm):
    """A line is one request. The length of the prompt is not printed, so the user gives ``input=N``."""

    title = "lines of mtp-bench.py"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _LINE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        prompt = needed(where, "input", facts.input)
        return [_answer(f"{where}: {line['task']}", line, prompt, facts) for line in _LINE.finditer(text)]


def _answer(where: str, line: re.Match[str], prompt: float, facts: GivenFacts) -> Timing:
    tokens = number(where, "tokens", line["tokens"])
    drafted = number(where, "drafted", line["drafted"])
    accepted = number(where, "accepted", line["accepted"])
    rate = number(where, "rate", line["rate"])
    iterations = tokens - accepted
    if iterations < 1 or accepted > drafted or not rate:
        raise refuse(where, "acc", "at most draft, and below pred, with tok/s above 0", accepted)
    speculated = NOT_SPECULATED
    if drafted:
        length = facts.gamma or drafted_length(drafted / iterations)
        speculated = speculation(where, facts, tokens / iterations, length)
    seconds = tokens / rate / iterations
    how = "decoding time over iterations"
    return step(where, seconds, facts.batch or 1.0, RequestLengths(prompt, tokens), speculated, how=how)
