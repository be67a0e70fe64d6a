"""A part of the block of ``vllm bench serve``, as people quote it: times per token without the load."""

import re
from collections.abc import Mapping

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.pastes.serving_block import BLOCK_TITLE, figures, rates_by_position
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation, stated_lengths

_TPOT = re.compile(r"^[^\n:]*?(?P<kind>mean|median) tpot \(ms\):\s+[0-9.]+\s*$", re.M | re.I)


class ServingPart(TextForm):
    """A text is one step. If it lacks the number of concurrent requests or their lengths, the user gives
    ``batch=N``, ``input=N`` and ``output=N``.
    """

    title = f"part of the block {BLOCK_TITLE!r}"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return BLOCK_TITLE not in text and _TPOT.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        kinds = [kind.lower() for kind in _TPOT.findall(text)]
        if len(kinds) > len(set(kinds)):
            raise InputError(
                f"{where}: has the TPOT of several runs: paste one, or put a line {BLOCK_TITLE!r} before each"
            )
        run = figures(where, text)
        facts = facts.over(_load(run))
        tpot_ms = run.get("median_tpot_ms", run.get("mean_tpot_ms", 0.0))
        if not tpot_ms:
            raise refuse(where, "TPOT (ms)", "above 0", tpot_ms)
        rates = rates_by_position(where, text)
        accepted = 1.0 + sum(rates) if rates else run.get("accepted")
        drafted = speculation(where, facts, accepted, len(rates) or None)
        batch = needed(where, "batch", facts.batch)
        seconds = drafted.tokens_per_iteration * tpot_ms / 1e3
        return [step(where, seconds, batch, stated_lengths(where, facts), drafted, how="Omega x TPOT")]


def _load(run: Mapping[str, float]) -> GivenFacts:
    """The load that the other lines state. A value is None if they do not state it."""
    batch = run.get("max_concurrency") or run.get("concurrency")
    requests = run.get("completed")
    if not requests:
        return GivenFacts(batch=batch)
    prompt, answer = (run.get(key) for key in ("total_input_tokens", "total_output_tokens"))
    return GivenFacts(
        batch=batch,
        input=None if prompt is None else prompt / requests,
        output=None if answer is None else answer / requests,
    )
