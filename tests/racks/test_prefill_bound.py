"""The rate that a prefill instance can serve within a limit on TTFT, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfmodel.answers.advice.pools.pairs import _prefill_bound


@pytest.mark.parametrize(
    ("limits_s", "rate"),
    [
        ({}, 9.0),
        ({"ttft": 0.11}, 0.0),
        ({"ttft": 0.12}, 2.0),
        ({"ttft": 0.21}, 10 * 0.10 / 0.15),
        ({"ttft": 99.0}, 9.0),
    ],
)
def test_the_wait_that_the_limit_leaves_sets_the_load_of_the_queue(limits_s: dict, rate: float) -> None:
    """Prompts of 100 ms, ten per second, and half a decode step of 20 ms: 110 ms without a wait. A fifth of
    the capacity leaves few waits at all.
    """
    prompts = SimpleNamespace(alone_s=0.1, each_s=0.1, cv=0.0)
    steps = SimpleNamespace(decode_s=np.array([0.02]))
    each = SimpleNamespace(prefill_rate=10.0, prompts=prompts, transfer_s=0.0, steps=steps)
    assert _prefill_bound(each, limits_s) == pytest.approx(rate)
