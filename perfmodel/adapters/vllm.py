"""Seconds of a forward pass for vLLM's ``--simulate-forward`` (vllm-project/vllm#47922, open).

The pull request skips the forward pass and has no times. Its model runner has a `SchedulerOutput` for each
pass; this function takes the three of its mappings on which the time depends.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from perfmodel.answers.point.predictor import Predictor

Counts = Mapping[str, int]
Drafts = Mapping[str, Sequence[int]]


def forward_time(predictor: Predictor) -> Callable[[Counts, Counts, Drafts], float]:
    """A function of (`num_scheduled_tokens`, computed tokens, `scheduled_spec_decode_tokens`), all by request
    id, that returns the seconds of that pass.

    A request with drafted tokens is verified and then drafts the same number of tokens: an iteration of
    the predictor.
    """

    def seconds(scheduled: Counts, computed: Counts, drafted: Drafts) -> float:
        gamma = max(map(len, drafted.values()), default=0)
        new = [1 if drafted.get(request) else tokens for request, tokens in scheduled.items()]
        past = [computed[request] for request in scheduled]
        return predictor.forward_s(np.array(new), np.array(past), gamma)

    return seconds
