"""What vLLM's example ``spec_decode.py`` prints: ``num_drafts: 27``, then ``acceptance at token 0: 0.81``."""

import re

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.text import floats, is_count

POSITION = "acceptance at token "
"""Begins the rate of a position: drafts whose token there was accepted, over all drafts."""
_RATE = re.compile(rf"^\s*{POSITION}(\d+): (\S+)$", re.M)
_COUNT = re.compile(r"^\s*(num_drafts|num_draft_tokens): (\S+)$", re.M)


def script_counters(where: str, text: str) -> Counters | None:
    """The counters of the script; None for any other text. Raises InputError."""
    rates = _RATE.findall(text)
    if not rates:
        return None
    if [int(position) for position, _ in rates] != list(range(len(rates))):
        raise refuse(where, f"{POSITION}N", "N = 0, 1, 2, ...", [position for position, _ in rates])
    survival = floats(rate for _, rate in rates)
    if not all(is_count(rate) and rate <= 1 for rate in survival):
        raise refuse(where, f"{POSITION}N", "rates from 0 to 1", [rate for _, rate in rates])
    counted = dict(_COUNT.findall(text))
    if counted.keys() != {"num_drafts", "num_draft_tokens"}:
        raise InputError(f"{where}: must hold the lines num_drafts and num_draft_tokens beside its rates")
    drafts, tokens = floats((counted["num_drafts"], counted["num_draft_tokens"]))
    if not is_count(drafts) or not is_count(tokens):
        raise refuse(where, "num_drafts, num_draft_tokens", "counts", list(counted.values()))
    return Counters(drafts, tuple(rate * drafts for rate in survival), tokens)
