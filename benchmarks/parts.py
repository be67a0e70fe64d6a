"""What `engine.py` times in processes of their own: ``python benchmarks/parts.py warm|million`` prints rows as JSON."""

import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from perfmodel.inflection import inflection
from perfmodel.query import Query, resolve
from perfmodel.speculative import Prediction, Scenario, predict
from perfmodel.whatif import answer
from perfmodel.workload import Workload

QUERY = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)
Rows = list[tuple[str, float, str, float | None]]


def best_s(work: Callable[[], object], runs: int) -> float:
    """Shortest of several runs, in seconds, after one that does not count."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def figures(p: Prediction) -> tuple[object, ...]:
    """Every figure of a warm answer."""
    steps = (p.target_s, p.draft_s, p.verify_s, p.overhead_s, p.tokens_per_iteration, p.gamma_optimal)
    return (*steps, p.draft_to_target, p.verify_to_target, p.speedup, p.tpot_s, p.throughput_tokens_per_s)


def with_lengths(scenario: Scenario, workload: Workload) -> object:
    """A warm answer and its three context lengths."""
    lengths = inflection(scenario, float(workload.batch), int(workload.gamma))
    return figures(predict(scenario, workload)), lengths


def grid(points: int) -> Workload:
    """A surface of batch x context with about `points` points at gamma 3."""
    side = round(points**0.5)
    return Workload.of(np.geomspace(1, 256, side)[:, None], np.geomspace(1e3, 1e6, points // side), 3)


def warm() -> Rows:
    """Answers in a running process; the first row is the yardstick."""
    scenario, one, thousand, values = (
        resolve(QUERY),
        Workload.of(64, 32000, 2),
        grid(1024),
        np.linspace(0, 1, 1_000_000),
    )
    return [
        ("np.exp of 1,000,000 doubles (the yardstick)", best_s(lambda: np.exp(values), 20) * 1e3, "ms", None),
        ("one answer", best_s(lambda: figures(predict(scenario, one)), 200) * 1e6, "us", 500),
        ("one answer with the three lengths", best_s(lambda: with_lengths(scenario, one), 50) * 1e3, "ms", 5),
        ("all of a what-if: names, lengths, interval, memory", best_s(lambda: answer(QUERY), 50) * 1e3, "ms", None),
        ("1,024 answers", best_s(lambda: figures(predict(scenario, thousand)), 50) * 1e3, "ms", 5),
    ]


def million() -> Rows:
    """A million answers, and the memory of their process."""
    scenario, points = resolve(QUERY), grid(1_000_000)
    seconds = best_s(lambda: figures(predict(scenario, points)), 3)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [("1,000,000 answers", seconds, "s", 1), ("1,000,000 answers, peak memory", megabytes, "MB", 1000)]


if __name__ == "__main__":
    print(json.dumps({"warm": warm, "million": million}[sys.argv[1]]()))
