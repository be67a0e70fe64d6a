"""The pass times of a simulated server at each running batch."""

from collections.abc import Callable
from dataclasses import dataclass

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes


@dataclass(slots=True)
class PassTimes:
    """The times of a pass at one running batch.

    - gain, tokens: output tokens and query tokens of each decoding request in a pass.
    - prompt_token_s: seconds that a prompt token adds.
    - prompts_s: a function that returns the seconds that all prompts add. If it is not None, it replaces
      prompt_token_s. The arguments of the function are the decoding tokens, the prompt tokens, and the number
      of groups times the prompt tokens of the fullest group.
    - cached_s: seconds of attention for each pair of a prompt token and a cached token before it.
    """

    decode_s: float
    gain: float
    tokens: int
    prompt_token_s: float
    prompts_s: Callable[[float, float, float], float] | None
    cached_s: float


def pass_times(steps: StepTimes, lengths: Lengths, most: int) -> tuple[PassTimes, ...]:
    """The pass times at each running batch from 0 to the number of seats, or to `most` if that is smaller. A
    pass with only a prompt also reads the weights, so the pass at batch 0 equals the pass at batch 1.
    """
    count = min(max(most, 1), steps.decode_s.size)
    table = steps.table[:count] or (steps,) * count
    decode_s = steps.decode_s[:count].tolist()
    if steps.table:
        decode_s = [float(t.decode_s[at]) for at, t in enumerate(table)]
    prompt_s = steps.prompt_s[:count].tolist()
    prefills = {t.prefill for t in table if t.prefill}
    prompts_s = {prefill: prefill.for_numbers() for prefill in prefills}
    passes = [
        PassTimes(
            decode_s[at],
            t.tokens_per_iteration,
            t.gamma + 1,
            prompt_s[at] / lengths.input_mean,
            prompts_s[t.prefill] if t.prefill else None,
            t.prefill.cached_s if t.prefill else 0.0,
        )
        for at, t in enumerate(table)
    ]
    return (passes[0], *passes)
