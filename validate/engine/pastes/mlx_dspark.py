"""The last line that ``mlx-dspark generate`` prints.

It is ``200 tokens · 4.99s · 40.1 tok/s end-to-end · 43.2 tok/s decode · accept 3.12/round · 64 target fwds``.
A round is an iteration, and its accepted tokens include the bonus token (mlx_dspark 0.20.3, generate.py).
"""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_ANSWER = re.compile(
    r"(?P<tokens>\d+) tokens · [\d.]+s · [\d.]+ tok/s end-to-end · (?P<rate>[\d.]+) tok/s decode"
    r"(?:.*? · accept (?P<accepted>[\d.]+)/round)?"
)


class MlxDspark(TextForm):
    """A line is one answer. Its prompt length and draft length are not printed, so the user gives
    ``input=N,gamma=N``.
    """

    title = "last line of mlx-dspark generate"
    engine = "mlx-dspark"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _ANSWER.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        return [_step(where, answer, facts) for answer in _ANSWER.finditer(text)]


def _step(where: str, answer: re.Match[str], facts: GivenFacts) -> Timing:
    tokens, rate = (number(where, name, answer[name]) for name in ("tokens", "rate"))
    if not rate:
        raise refuse(where, "tokens per second", "above 0", answer["rate"])
    counted = answer["accepted"]
    accepted = None if counted is None else number(where, "accept", counted)
    drafted = speculation(where, facts, accepted, None)
    lengths = RequestLengths(needed(where, "input", facts.input), tokens)
    iteration_s = drafted.tokens_per_iteration / rate
    return step(where, iteration_s, 1.0, lengths, drafted, how="decoding time over iterations")
