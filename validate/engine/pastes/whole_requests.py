"""The output of ``vllm bench latency``, ``vllm bench throughput`` and vLLM's ``LLM.generate``, which time
whole requests.
"""

import re

from perfmodel.errors import InputError
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing

_LINE = re.compile(
    r"^\s*(?:Avg latency: [\d.]+ seconds|Throughput: [\d.]+ requests/s, )|est\. speed input: [\d.]+ toks/s",
    re.M,
)


class WholeRequests(TextForm):
    """This format is always refused, because its times include both prompts and answers."""

    title = "output of vllm bench latency or throughput, or of LLM.generate"
    engine = "vllm"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _LINE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        raise InputError(
            f"{where}: times prompts and outputs together: `vllm bench serve` times a token (TPOT), or "
            "compare `perfmodel traffic` with it"
        )
