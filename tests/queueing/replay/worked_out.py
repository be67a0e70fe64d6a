"""Requests of a simulated server whose times are worked out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Limits
from perfmodel.queueing.replay import replay
from perfmodel.queueing.steps import StepTimes
from tests.queueing.replay.servers import LENGTHS


@dataclass(frozen=True)
class WorkedOut:
    """A server, its requests, and what is worked out by hand.

    prompts: tokens of each request; None is 100 each. first_ms, last_ms: to the first and to the last token.
    decoding_ms: request-milliseconds of decoding. preempted: preemptions.
    """

    server: StepTimes
    arrive_ms: list[float]
    outputs: list[int]
    first_ms: list[float]
    last_ms: list[float]
    decoding_ms: float
    prompts: list[int] | None = None
    seats: int = 256
    budget: int = 8192
    clients: int | None = None
    preempted: int = 0


def assert_replayed(by_hand: WorkedOut) -> None:
    """The simulation has the times, the decoding and the preemptions that were worked out."""
    arrive_s = np.array(by_hand.arrive_ms) / 1000
    prompts = by_hand.prompts or [100] * len(arrive_s)
    requests = Arrivals(arrive_s, np.array(prompts), np.array(by_hand.outputs))
    met = replay(by_hand.server, LENGTHS, Limits(by_hand.seats, by_hand.budget), requests, by_hand.clients)
    np.testing.assert_allclose(met.ttft_s * 1000, by_hand.first_ms, rtol=1e-9)
    np.testing.assert_allclose(met.e2e_s * 1000, by_hand.last_ms, rtol=1e-9)
    assert met.running * met.duration_s * 1000 == pytest.approx(by_hand.decoding_ms)
    assert met.preemptions == by_hand.preempted
    assert met.output_tokens.tolist() == by_hand.outputs
    decoded = np.maximum(np.array(by_hand.outputs) - 1, 1)
    np.testing.assert_allclose(met.tpot_s, (met.e2e_s - met.ttft_s) / decoded)
