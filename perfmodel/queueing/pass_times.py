"""The passes of a replayed server, by running batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes


@dataclass(slots=True)
class PassTimes:
    """A pass at one running batch: seconds, gain and tokens of each request; seconds of a prompt token, or
    the function of decoding and prompt tokens that gives the seconds of all prompts. cached_s: attention per
    prompt token and per cached token before it.
    """

    decode_s: float
    gain: float
    tokens: int
    prompt_token_s: float
    prompts_s: Callable[[float, float], float] | None
    cached_s: float


@lru_cache(maxsize=16)
def pass_times(steps: StepTimes, lengths: Lengths) -> tuple[PassTimes, ...]:
    """Passes by running batch from 0; a prompt alone reads the weights too, so 0 is as 1."""
    table = steps.table or (steps,) * steps.decode_s.size
    readings = {t.reading for t in table if t.reading}
    prompts_s = {reading: reading.of_one() for reading in readings}
    passes = []
    for at in [0, *range(len(table))]:
        t = table[at]
        passes.append(
            PassTimes(
                float(t.decode_s[at]),
                t.tokens_per_iteration,
                t.gamma + 1,
                float(steps.prompt_s[at]) / lengths.input_mean,
                prompts_s[t.reading] if t.reading else None,
                t.reading.cached_s if t.reading else 0.0,
            )
        )
    return tuple(passes)
