"""The page ``/metrics`` of llama.cpp's server, which has means since its start. The tokens per pass show
whether a draft ran.
"""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation, stated_lengths

DRAFTING = 1.1
"""Tokens per pass and slot above which a draft must have run. Passes of prompts lower this number."""
_PAGE = re.compile(r"^\s*llamacpp:tokens_predicted_seconds_total", re.M)


class LlamaMetrics(TextForm):
    """A page is one step, the mean pass of the server. The length of prompts is not on the page, so the user
    gives ``input=N``.
    """

    title = "metrics of llama.cpp's server"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _PAGE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        tokens = total(where, text, "llamacpp:tokens_predicted")
        seconds = total(where, text, "llamacpp:tokens_predicted_seconds")
        if not tokens or not seconds:
            raise refuse(where, "tokens_predicted_total", "above 0: nothing was decoded", tokens)
        slots = total(where, text, "llamacpp:n_busy_slots_per_decode") or None
        batch = needed(where, "batch", facts.batch or slots)
        lengths = stated_lengths(where, facts)
        drafted = speculation(where, facts, _accepted(where, text, tokens, slots), None)
        mean_s = seconds / tokens * drafted.tokens_per_iteration
        return [step(where, mean_s, batch, lengths, drafted, how="mean time of a token")]


def _accepted(where: str, text: str, tokens: float, slots: float | None) -> float | None:
    """The tokens per pass and slot. None if they are at most `DRAFTING`, because no draft ran then, or if the
    page lacks a count.
    """
    passes = total(where, text, "llamacpp:n_decode")
    if not passes or not slots:
        return None
    gained = tokens / (passes * slots)
    return gained if gained > DRAFTING else None
