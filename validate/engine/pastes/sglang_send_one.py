"""The output of SGLang's ``python -m sglang.test.send_one`` about one request. It is ``acc_length=2.84
speed=212.31 token/s``, or a table with the columns ``Latency (s)``, ``Tokens``, ``Acc Length`` and ``Speed
(token/s)``.
"""

import re
from collections.abc import Iterator, Mapping

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_LINE = re.compile(r"acc_length=(?P<accepted>[\d.]+) *,? *speed=(?P<rate>[\d.]+) token/s")
_COLUMNS = {"Tokens": "tokens", "Acc Length": "accepted", "Speed (token/s)": "rate"}


class SglangSendOne(TextForm):
    """A request is one step, alone on the server. The lengths of prompt and draft are not printed, so the
    user gives ``input=N`` and ``gamma=N``. An accept length of 1 means decoding without a draft.
    """

    title = "output of SGLang's send_one"
    engine = "sglang"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(True for _ in _requests(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        return [_step(where, words, facts) for words in _requests(text)]


def _requests(text: str) -> Iterator[Mapping[str, str]]:
    """The printed figures of each request by name."""
    for line in _LINE.finditer(text):
        yield line.groupdict()
    for row in rows(text, tuple(_COLUMNS)):
        yield {name: row[column] for column, name in _COLUMNS.items()}


def _step(where: str, words: Mapping[str, str], facts: GivenFacts) -> Timing:
    printed = {name: number(where, name, word) for name, word in words.items()}
    if not printed["rate"]:
        raise refuse(where, "speed", "above 0", words["rate"])
    drafted = speculation(where, facts, printed["accepted"], None)
    lengths = RequestLengths(needed(where, "input", facts.input), printed.get("tokens", facts.output or 1.0))
    iteration_s = drafted.tokens_per_iteration / printed["rate"]
    return step(where, iteration_s, 1.0, lengths, drafted, how="answer time over iterations")
