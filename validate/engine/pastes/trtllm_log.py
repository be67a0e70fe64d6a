"""The lines about iterations in a log of TensorRT-LLM (``print_iter_log``).

A line is ``iter = 120, ..., host_step_time = 7.51ms, ..., num_scheduled_requests: 4, states =
{'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 4}``.
"""

import re
from statistics import median

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing, speculation, stated_lengths
from perfmodel.validate.solving import grouped

_LINE = re.compile(
    r"host_step_time = (?P<ms>[\d.]+)\s*ms.*?num_scheduled_requests: (?P<requests>\d+), "
    r"states = \{.*?'num_ctx_tokens': (?P<prompts>\d+), 'num_generation_tokens': (?P<tokens>\d+)\}"
)


class TrtllmLog(TextForm):
    """A step is the median of all iterations with the same number of requests and tokens. Iterations that
    read prompts are left out. Contexts and accepted tokens are not printed, so the user gives ``input=N`` and
    ``accepted=X``.
    """

    title = "iterations in a log of TensorRT-LLM"
    engine = "trtllm"
    of_server = True

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _LINE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        decoding = list(filter(_decodes_alone, _LINE.finditer(text)))
        if not decoding:
            raise InputError(f"{where}: has no iteration that decodes alone: paste lines behind the prompts")
        loads = grouped(decoding, lambda line: (int(line["requests"]), int(line["tokens"])))
        return [_step(where, lines, *load, facts) for load, lines in loads.items()]


def _decodes_alone(line: re.Match[str]) -> bool:
    """Whether an iteration reads no prompt and verifies the same number of tokens for every request."""
    requests = int(line["requests"])
    tokens = int(line["tokens"])
    return line["prompts"] == "0" and 0 < requests <= tokens and tokens % requests == 0


def _step(where: str, lines: list[re.Match[str]], requests: int, tokens: int, facts: GivenFacts) -> Timing:
    """The median iteration of the lines with this number of requests and verified tokens."""
    length = tokens // requests - 1
    drafted = speculation(where, facts, None, length or None)
    seconds = median(float(line["ms"]) for line in lines) / 1e3
    return step(
        where, seconds, float(requests), stated_lengths(where, facts), drafted, how="median iteration"
    )
