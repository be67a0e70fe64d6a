"""The page of metrics of TensorRT-LLM's server. It has means since the start of the server and counts no
drafts.
"""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation, stated_lengths

_PAGE = re.compile(r"^\s*(trtllm[:_]time_per_output_token_seconds)_sum", re.M)


class TrtllmMetrics(TextForm):
    """A page is one step, with the mean TPOT. The number of concurrent requests and their lengths are not on
    the page, so the user gives them.
    """

    title = "metrics of TensorRT-LLM's server"
    engine = "trtllm"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _PAGE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        printed = _PAGE.search(text)
        assert printed is not None
        seconds = total(where, text, f"{printed[1]}_sum")
        tokens = total(where, text, f"{printed[1]}_count")
        if not tokens or not seconds:
            raise refuse(where, "time_per_output_token_seconds", "above 0: nothing was decoded", tokens)
        batch = needed(where, "batch", facts.batch)
        lengths = stated_lengths(where, facts)
        drafted = speculation(where, facts, None, None)
        iteration_s = seconds / tokens * drafted.tokens_per_iteration
        return [step(where, iteration_s, batch, lengths, drafted, how="mean TPOT")]
