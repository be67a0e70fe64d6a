"""Speed to be tracked over commits: ``make bench-compare BASE=main`` times two commits on one machine, in one go.

Each test is one thing that somebody waits for. No time is asserted: what counts is the ratio between the commits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from perfmodel.answers.query import Query, resolve
from perfmodel.answers.traffic import traffic
from perfmodel.answers.whatif import whatif
from perfmodel.speculation.chain import predict
from perfmodel.speculation.lengths import context_lengths
from perfmodel.speculation.workload import Workload

Timed = Callable[..., Any]
QUERY = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)
SCENARIO = resolve(QUERY)
SERVER: dict[str, Any] = {
    "model": "gpt-oss-120b", "hardware": "h200", "input_len": "8k", "output_len": "1k",
    "draft": "eagle:features=3", "alpha": 0.6,
}  # fmt: skip


def test_yardstick(benchmark: Timed) -> None:
    """Numpy alone: where this differs between two commits, the machine did."""
    benchmark(np.exp, np.linspace(0, 1, 100_000))


def test_one_answer(benchmark: Timed) -> None:
    assert benchmark(lambda: predict(SCENARIO, Workload.of(64, 32000, 2)).speedup) > 1


def test_the_three_lengths(benchmark: Timed) -> None:
    benchmark(context_lengths, SCENARIO, 64.0, 2)


def test_a_whole_what_if(benchmark: Timed) -> None:
    assert benchmark(whatif, QUERY).verdict == "pays"


def test_one_question_about_traffic(benchmark: Timed) -> None:
    assert benchmark(lambda: traffic(**SERVER, request_rate=1.0, gamma="1,3")).verdict == "speculate"


def test_10000_rates_and_lengths(benchmark: Timed) -> None:
    rates = np.linspace(0.01, 1.9, 2500).tolist()
    assert len(benchmark(lambda: traffic(**SERVER, request_rate=rates, gamma="1,3,5")).rows) == 10_000


def test_a_surface_of_100000_answers(benchmark: Timed) -> None:
    surface = Workload.of(np.geomspace(1, 256, 316)[:, None], np.geomspace(1e3, 1e6, 316), 3)
    benchmark(lambda: predict(SCENARIO, surface).speedup)
