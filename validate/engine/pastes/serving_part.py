"""A part of the block of ``vllm bench serve``, as people quote it: times per token without the load."""

import re

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.pastes.serving_block import BLOCK_TITLE, figures, rates_by_position
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation, stated_lengths

_TPOT = re.compile(r"^[^\n:]*?(?:mean|median) tpot \(ms\):\s+[0-9.]+\s*$", re.M | re.I)


class ServingPart(TextForm):
    """A text is one step. It does not have the number of concurrent requests and their lengths, so the user
    gives ``batch=N``, ``input=N`` and ``output=N``.
    """

    title = f"part of the block {BLOCK_TITLE!r}"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return BLOCK_TITLE not in text and _TPOT.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        run = figures(where, text)
        tpot_ms = run.get("median_tpot_ms", run.get("mean_tpot_ms", 0.0))
        if not tpot_ms:
            raise refuse(where, "TPOT (ms)", "above 0", tpot_ms)
        rates = rates_by_position(where, text)
        accepted = 1.0 + sum(rates) if rates else run.get("accepted")
        drafted = speculation(where, facts, accepted, len(rates) or None)
        batch = needed(where, "batch", facts.batch)
        seconds = drafted.tokens_per_iteration * tpot_ms / 1e3
        return [step(where, seconds, batch, stated_lengths(where, facts), drafted, how="Omega x TPOT")]
