"""Servers of few and round step times, for requests that are worked through by hand."""

from dataclasses import replace

import numpy as np

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.queueing.steps import StepTimes

LENGTHS = Lengths(100.0, 60.0)
"""A prompt of 100 tokens; a context of 130."""


def server(decode_ms, prompt_ms=(50.0,), gamma=0, gained=1.0, room=13_000, **more) -> StepTimes:
    """Passes of these milliseconds by running batch, prompts of 100 tokens too, and KV room for so many
    tokens.
    """
    decode = np.asarray(decode_ms, float) / 1000
    prompt = np.resize(np.asarray(prompt_ms, float) / 1000, decode.size)
    return StepTimes(gamma, gained, decode, prompt, decode.size, 130 / room, **more)


TWO = {"gamma": 3, "gained": 2.0, "survival": np.array([1.0, 1.0, 0.0, 0.0])}
"""Four tokens verified and two gained, in every iteration."""
PLAIN = server([10, 12, 14])
DRAFTS = server([20, 24, 30], **TWO)
BY_BATCH = replace(server([15, 30], **TWO), table=(server([15, 30], **TWO), server([10, 12])))
PREFILL = PrefillTime(np.array([1.0, 100.0, 200.0]), np.array([1.0, 1.0, 2.0]), 0.001)
"""Up to 100 tokens a pass takes 1 s, then 10 ms a token; 1 ms for the attention of each prompt token."""
BY_BATCH_AND_GAIN = replace(
    server([15, 30], room=500.5, **TWO), table=(server([15, 30], **TWO), server([10, 12], gained=1.5))
)
OF_TWO_GROUPS = replace(
    server([10, 12, 14], room=500.5),
    prefill=PrefillTime(
        tokens=np.array([0.0, 1000.0]),
        seconds=np.array([0.0, 0.1]),
        token_s=0.0,
        groups=2,
        expert_seconds=np.zeros(2),
    ),
)
