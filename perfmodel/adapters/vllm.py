"""Predicts the seconds of a forward pass for vLLM's ``--simulate-forward`` (open pull request
vllm-project/vllm#47922).

The pull request skips the forward pass and does not predict its time. Its model runner gets a
`SchedulerOutput` for each pass. The time depends on three mappings of this object, which are the arguments
here.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from perfmodel.answers.point.predictor import Predictor

Counts = Mapping[str, int]
Drafts = Mapping[str, Sequence[int]]


def forward_time(predictor: Predictor) -> Callable[[Counts, Counts, Drafts], float]:
    """A function that returns the seconds of a pass. Its arguments are `num_scheduled_tokens`, the
    computed tokens and `scheduled_spec_decode_tokens`, each as a mapping from request id.

    If a request has drafted tokens, the pass verifies them and then drafts as many again, as in an
    iteration of the predictor.
    """

    def seconds(scheduled: Counts, computed: Counts, drafted: Drafts) -> float:
        gamma = max(map(len, drafted.values()), default=0)
        new = [1 if drafted.get(request) else tokens for request, tokens in scheduled.items()]
        past = [computed[request] for request in scheduled]
        return predictor.forward_s(np.array(new), np.array(past), gamma)

    return seconds
