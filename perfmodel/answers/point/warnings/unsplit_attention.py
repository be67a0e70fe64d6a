"""Warns about attention backends that do not split the cache of a sequence among multiprocessors in a
verification.
"""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.text import Note
from perfmodel.speculation import Scenario, once

WORTH_A_NOTE = 1.1
"""A note is given if a verification takes more than this many times as long because the cache is not
split.
"""
WORTH_A_WARNING = 1.5
"""A warning is given if a verification takes more than this many times as long."""


def unsplit_attention(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """A warning if verification takes longer because the attention backend does not split the cache. The
    warning states how many times as long verification takes. There is no warning if the question states
    `kv_reread`, because the number of reads is then known.
    """
    machine = scenario.machine
    backend = machine.attention.backend(scenario.target.head, scenario.precision.narrow_kv)
    if backend is None or machine.kv_reread is not None:
        return
    unsplit_s = _verify_s(scenario, batch, context, gamma)
    split_s = _verify_s(_reading_once(scenario), batch, context, gamma)
    longer = unsplit_s / split_s
    text = (
        f"{backend} does not split the cache when it verifies several tokens: verification takes "
        f"{longer:.1f} times as long as with a kernel that does (--attention-backend)"
    )
    if longer > WORTH_A_WARNING:
        yield text
    elif longer > WORTH_A_NOTE:
        yield Note(text)


def _verify_s(scenario: Scenario, batch: float, context: float, gamma: int) -> float:
    """The time of a verification in seconds, without a power limit."""
    return float(scenario.formulas.target.at(batch, context, gamma + 1.0, scenario.context_std))


@once
def _reading_once(scenario: Scenario) -> Scenario:
    """The scenario in which every pass reads the cache once."""
    return scenario.on_same_shards(machine=replace(scenario.machine, kv_reread=1.0))
