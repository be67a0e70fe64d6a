"""The times of replayed requests."""

import numpy as np
import pytest

from perfmodel.queueing.replayed_requests import ReplayedRequests


def replayed(output_tokens: list[int], tpot_s: list[float]) -> ReplayedRequests:
    """Requests of these output tokens, which arrive together and have the same TTFT."""
    times_s = np.array(tpot_s)
    tokens = np.array(output_tokens)
    return ReplayedRequests(
        ttft_s=np.full(len(tokens), 0.1),
        tpot_s=times_s,
        e2e_s=0.1 + times_s * (tokens - 1),
        output_tokens=tokens,
        running=1.0,
        duration_s=1.0,
        preemptions=0,
    )


def test_a_request_of_one_token_has_no_time_per_token() -> None:
    assert replayed([1, 3, 5], [0.0, 0.02, 0.04]).mean_tpot_s == pytest.approx(0.03)
    assert replayed([1, 1], [0.0, 0.0]).mean_tpot_s == 0.0
