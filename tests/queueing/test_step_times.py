"""Passes of a server, priced by the roofline: pinned, for drafts of each way to be run."""

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import step_times
from perfmodel.specs.request_costs import EngineRequests

OWN = EngineRequests(request_s=0.01, prompt_token_s=1e-5, prompt_factor=1.5, passes_ahead=0.5,
                     passes_ahead_model_draft=0.25, reserved_bytes=1e9)  # fmt: skip
# flags, gamma; seats, tokens per iteration, share of the room, ms of the smallest and of the largest batch, of a prompt
# in either, and of one of 4,000 tokens beside 10 others
PINNED = [
    ({}, 0, (40.0, 1.0, 0.003725989, 7.470109, 100.6407, 11.72081, 104.3704, 252.6682)),
    ({"draft_kv": "streamingllm:512"}, 3, (40.0, 2.952, 0.004919882, 29.68663, 101.0263, 39.13733, 110.7863, 252.9315)),
    ({"draft": "llama-3.2-1b"}, 3, (40.0, 2.952, 0.004877063, 11.20599, 116.0638, 19.34544, 125.8238, 293.0315)),
    ({"draft": "llama-3.2-1b", "tp": 2}, 80, (25.0, 5.0, 0.00216145, 53.86286, 67.19747, 136.7702, 69.7147, 162.8478)),
    ({"draft": "eagle"}, 2, (40.0, 2.44, 0.003881546, 9.012971, 103.9519, 13.9889, 111.8772, 260.968)),
    ({"model": "llama-3.1-70b", "tp": 2}, 1, (5.0, 1.8, 0.1698709, 68.42332, 496.1487, 69.4272, 500.2965, 1241.767)),
    ({"model": "llama-3.1-70b"}, 0, (0.0, 1.0, np.inf, 68.45781, 937.1677, 68.45781, 937.1677, 2355.882)),
]


def figures(flags, gamma):
    asked = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "alpha": 0.8, "calibration": "ideal"} | flags
    scenario = resolve(Query(batch=1, context=1, **asked))
    times = step_times(scenario, Lengths(1500.0, 200.0, 500.0, 50.0), Limits(40, 2048), [0, gamma], OWN)[1]
    first, last = ([float(s[at]) * 1000 for s in (times.decode_s, times.prompt_s)] for at in (0, -1))
    read = float(times.reading(10.0, 4000.0)) * 1000
    return times, (times.seats, times.tokens_per_iteration, times.kv_share, *first, *last, read)


@pytest.mark.parametrize(("flags", "gamma", "expected"), PINNED)
def test_passes_are_what_they_were(flags, gamma, expected):
    times, found = figures(flags, gamma)
    assert found == pytest.approx(expected, rel=1e-6)
    assert (times.gamma, times.own_s) == (gamma, 0.01 + 1500 * 1e-5)
    assert times.passes_ahead == (0.25 if "llama" in flags.get("draft", "") else 0.5)
    assert times.decode_s.size == times.prompt_s.size == max(times.seats, 1)
    assert times.survival is None
