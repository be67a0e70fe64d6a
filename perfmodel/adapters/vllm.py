"""Predicts the time of a forward pass for vLLM's ``--simulate-forward`` (open pull request
vllm-project/vllm#47922).

The pull request skips the forward pass and does not predict its time. The model runner gets a
`SchedulerOutput` for each pass. The time depends on three mappings in this object. The function that
`forward_time` returns takes these mappings as arguments.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from perfmodel.answers.point.predictor import Predictor

Counts = Mapping[str, int]
Drafts = Mapping[str, Sequence[int]]


def forward_time(predictor: Predictor) -> Callable[[Counts, Counts, Drafts], float]:
    """A function that returns the time of a pass in seconds. The function takes three mappings from the
    request id, which are `num_scheduled_tokens`, the number of computed tokens, and
    `scheduled_spec_decode_tokens`.

    If a request has drafted tokens, the pass is an iteration of the predictor: it verifies these tokens and
    drafts the same number of new ones.
    """

    def seconds(scheduled: Counts, computed: Counts, drafted: Drafts) -> float:
        gamma = max(map(len, drafted.values()), default=0)
        new = [1 if drafted.get(request) else tokens for request, tokens in scheduled.items()]
        past = [computed[request] for request in scheduled]
        return predictor.forward_s(np.array(new), np.array(past), gamma)

    return seconds
