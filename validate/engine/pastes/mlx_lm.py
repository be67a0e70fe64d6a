"""The speeds that ``mlx_lm.generate``, ``mlx_vlm.generate`` and ``mlx_lm.benchmark`` print.

The lines are ``Prompt: 512 tokens, 701.321 tokens-per-sec`` and then ``Generation: 256 tokens, 41.382
tokens-per-sec``. The benchmark prints ``Timing with prompt_tokens=1024, ...`` and then ``Averages:
prompt_tps=1201.720, generation_tps=61.161``.
"""

import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_ANSWER = re.compile(
    r"(?:^Prompt: (?P<prompt>[\d.]+) tokens?, (?P<read>[\d.]+) tokens-per-sec\s+)?"
    r"^Generation: (?P<tokens>[\d.]+) tokens?, (?P<rate>[\d.]+) tokens-per-sec",
    re.M,
)
_BENCHMARK = re.compile(
    r"^Timing with prompt_tokens=(?P<prompt>\d+), generation_tokens=(?P<tokens>\d+)"
    r"(?:, batch_size=(?P<batch>\d+))?.*?"
    r"^Averages: prompt_tps=(?P<read>[\d.]+), generation_tps=(?P<rate>[\d.]+)",
    re.M | re.S,
)


class MlxLm(TextForm):
    """Each match is one answer, or the averages of a benchmark, whose rate is that of all sequences. Accepted
    tokens are not printed, so the user gives ``gamma=N,accepted=X``.
    """

    title = "speed printed by mlx-lm or mlx-vlm"
    engine = "mlx"
    counts_drafts = False

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return next(_runs(text), None) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        return [_step(where, run, facts) for run in _runs(text)]

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        timed = []
        for run in _runs(text):
            tokens, rate = (number(where, name, run[name] or "0") for name in ("prompt", "read"))
            if tokens and rate and run.groupdict().get("batch") in (None, "1"):
                timed.append(PromptTiming(tokens, 0.0, tokens / rate))
        return timed


def _runs(text: str) -> Iterator[re.Match[str]]:
    yield from _BENCHMARK.finditer(text)
    yield from _ANSWER.finditer(text)


def _step(where: str, run: re.Match[str], facts: GivenFacts) -> Timing:
    tokens, rate = (number(where, name, run[name]) for name in ("tokens", "rate"))
    if not rate:
        raise refuse(where, "tokens-per-sec", "above 0", run["rate"])
    stated = run.groupdict().get("batch")
    batch = facts.batch or float(stated or 1)
    prompt = facts.input if run["prompt"] is None else number(where, "prompt", run["prompt"])
    speculated = speculation(where, facts, None, None)
    seconds = batch * speculated.tokens_per_iteration / rate
    lengths = RequestLengths(needed(where, "input", prompt), tokens)
    return step(where, seconds, batch, lengths, speculated, how="decoding time over iterations")
