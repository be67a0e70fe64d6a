"""The output of SGLang's ``bench_one_batch``: the time of the prompts of a batch, and then its median step.

The lines are ``Prefill. latency: 0.05121 s, throughput: 159962.12 token/s`` and ``Decode. median latency:
0.00655 s, median throughput: 1221.37 token/s``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed

_SPEED = r"latency:\s*(?P<{0}s>[\d.]+) s, (?:median )?throughput:\s*(?P<{0}rate>[\d.]+) token/s"
_RUN = re.compile(rf"(?:Prefill\. {_SPEED.format('prompt_')}.*?)?Decode\.\s+median {_SPEED.format('')}", re.S)


@dataclass(frozen=True, slots=True)
class _Run:
    """One batch.

    - prompt_tokens: the prompt tokens of one sequence; None if the tool prints no time of prompts.
    """

    batch: int
    seconds: float
    prompt_s: float
    prompt_tokens: float | None


class SglangOneBatch(TextForm):
    """A batch is one step without a draft. The length of answers is not printed, so the user can give
    ``output=N``.
    """

    title = "output of SGLang's bench_one_batch"
    engine = "sglang"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _RUN.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        for run in _runs(where, text):
            prompt = needed(where, "input", run.prompt_tokens or facts.input)
            lengths = RequestLengths(prompt, facts.output or 1.0)
            steps.append(step(where, run.seconds, float(run.batch), lengths, how="median time of a step"))
        return steps

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        alone = [run for run in _runs(where, text) if run.batch == 1 and run.prompt_tokens]
        return [PromptTiming(run.prompt_tokens or 0.0, 0.0, run.prompt_s) for run in alone]


def _runs(where: str, text: str) -> Iterator[_Run]:
    for match in _RUN.finditer(text):
        printed = {name: number(where, name, word) for name, word in match.groupdict(default="0").items()}
        if not printed["s"] or not printed["rate"]:
            raise refuse(where, "median latency", "above 0, with a throughput above 0", match["s"])
        batch = max(round(printed["s"] * printed["rate"]), 1)
        tokens = round(printed["prompt_s"] * printed["prompt_rate"] / batch)
        yield _Run(batch, printed["s"], printed["prompt_s"], tokens or None)
