"""What `engine.py` times in processes of their own: ``python benchmarks/parts.py warm|million|decoder``
prints rows.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from counts import QUERY, SERVER, WARM_UP  # beside this file

from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.predictor import predictor
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Prediction, Scenario, Workload, context_lengths, predict

DECODER_CONTEXT = 16384
QUESTIONS = {
    "self-draft": QUERY,
    "EAGLE-3": Query("qwen3-32b", "h100", 16, 8192, 3, tp=2, draft="eagle3", alpha=0.7),
    "MTP": Query("deepseek-v3", "h200", 32, 8192, 1, tp=8, draft="mtp", alpha=0.8),
    "DFlash": Query("qwen3-8b", "h100", 16, 8192, 7, draft="dflash", alpha=0.8),
    "a draft model": Query("qwen3-32b", "h100", 16, 8192, 3, tp=2, draft="qwen3-0.6b", alpha=0.7),
    "n-grams": Query("qwen3-32b", "h100", 16, 8192, 3, tp=2, draft="ngram", alpha=0.4),
}
"""Kind of draft -> a question about it."""
Rows = list[tuple[str, float, str, float | None]]


def median_s(work: Callable[[], object], runs: int) -> float:
    """Median processor time of several runs, in seconds, after one that does not count."""
    work()
    return median_of([work] * runs)


def median_of(works: Sequence[Callable[[], object]]) -> float:
    """Median processor time of different works, in seconds."""
    times = []
    for work in works:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def figures(p: Prediction) -> tuple[object, ...]:
    """Every figure of a warm answer."""
    steps = (p.target_s, p.draft_s, p.verify_s, p.overhead_s, p.tokens_per_iteration, p.gamma_optimal)
    return (*steps, p.draft_to_target, p.verify_to_target, p.speedup, p.tpot_s, p.throughput_tokens_per_s)


def with_lengths(scenario: Scenario, workload: Workload) -> object:
    """A warm answer and its three context lengths."""
    lengths = context_lengths(scenario, float(workload.batch), int(workload.gamma))
    return figures(predict(scenario, workload)), lengths


def grid(points: int) -> Workload:
    """A surface of batch x context with about `points` points at gamma 3."""
    side = round(points**0.5)
    return Workload.of(np.geomspace(1, 256, side)[:, None], np.geomspace(1e3, 1e6, points // side), 3)


def warm() -> Rows:
    """Answers in a running process; the first row is the yardstick."""
    scenario = resolve(QUERY)
    one = Workload.of(64, 32000, 2)
    thousand = grid(1024)
    values = np.linspace(0, 1, 1_000_000)
    rates = np.linspace(0.01, 0.8, 250).tolist()  # below those that are replayed
    loads = SERVER | {"request_rate": rates, "gamma": "1,3,5"}
    return [
        (
            "np.exp of 1,000,000 doubles (the yardstick)",
            median_s(lambda: np.exp(values), 20) * 1e3,
            "ms",
            None,
        ),
        ("one answer", median_s(lambda: figures(predict(scenario, one)), 200) * 1e6, "us", 250),
        (
            "one answer with the three lengths",
            median_s(lambda: with_lengths(scenario, one), 50) * 1e3,
            "ms",
            5,
        ),
        *whatifs(),
        *handles(),
        ("1,024 answers", median_s(lambda: figures(predict(scenario, thousand)), 50) * 1e3, "ms", 5),
        ("a question about traffic", median_s(lambda: traffic(**SERVER), 5) * 1e3, "ms", None),
        ("1,000 rates and draft lengths of traffic", median_s(lambda: traffic(**loads), 2), "s", None),
    ]


def whatifs() -> Rows:
    """Whole what-ifs about a question of each kind of draft: the same again, and different ones.

    All of them have names, lengths, interval, remedies, warnings and memory. The passes are compiled.
    """
    draw = np.random.default_rng(7)
    rows: Rows = []
    for kind, query in QUESTIONS.items():
        for number in range(WARM_UP):
            whatif(query, context=20_000 + number)
        others = [
            replace(query, batch=int(batch), context=int(context))
            for batch, context in zip(draw.integers(1, 200, 50), draw.integers(500, 40_000, 50), strict=True)
        ]
        again_s = median_s(lambda query=query: whatif(query), 50)
        others_s = median_of([partial(whatif, other) for other in others])
        rows.append((f"a what-if, {kind}, again", again_s * 1e3, "ms", 3))
        rows.append((f"50 different what-ifs, {kind}, each", others_s * 1e3, "ms", 3))
    return rows


def handles() -> Rows:
    """A predictor: made, and asked for numbers, for arrays and for a mixed batch."""
    subject = {"model": "qwen3-32b", "hardware": "h100", "tp": 2, "draft": "eagle3", "gamma": 3}
    p = predictor(**subject)
    draw = np.random.default_rng(1)
    batches = draw.integers(1, 257, 10_000).astype(float)
    contexts = draw.integers(1, 100_001, 10_000).astype(float)
    new = np.append(np.ones(64), 2000.0)
    past = np.append(np.full(64, 4000.0), 0.0)
    step_s = median_s(lambda: p.step_s(16, 8192), 2000)
    steps_s = median_s(lambda: p.step_s(batches, contexts), 50)
    iterations_s = median_s(lambda: p.iteration_s(batches, contexts), 50)
    return [
        ("a predictor made", median_s(lambda: predictor(**subject).iteration_s(1, 1), 10) * 1e3, "ms", None),
        ("a predictor's step", step_s * 1e6, "us", 100),
        ("a what-if, over a predictor's step", median_s(lambda: whatif(QUERY), 20) / step_s, "x", None),
        ("a predictor's iteration", median_s(lambda: p.iteration_s(16, 8192), 1000) * 1e6, "us", 100),
        (
            "a pass of 64 requests and a prompt",
            median_s(lambda: p.forward_s(new, past), 500) * 1e6,
            "us",
            None,
        ),
        ("10,000 steps in one call", steps_s * 1e3, "ms", 10),
        ("10,000 iterations in one call", iterations_s * 1e3, "ms", 10),
    ]


def million() -> Rows:
    """A million answers, and the memory of their process."""
    scenario = resolve(QUERY)
    points = grid(1_000_000)
    values = np.linspace(0, 1, 1_000_000)
    yardstick = median_s(lambda: np.exp(values), 20)
    seconds = median_s(lambda: figures(predict(scenario, points)), 3)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        ("1,000,000 answers", seconds, "s", None),
        ("1,000,000 answers, over np.exp of as many", seconds / yardstick, "x np.exp", 200),
        ("1,000,000 answers, peak memory", megabytes, "MB", 1000),
    ]


def decoder() -> Rows:
    """The real decoder on this CPU at a point where a sparse draft pays: what it gains, and what its loop
    adds.
    """
    from perfmodel.validate.harness.measure import run_plan
    from perfmodel.validate.records import load_plan, points, read_record

    plan = load_plan("cpu-quick")
    block = plan.grid[0].replace(context=(DECODER_CONTEXT,))
    with tempfile.TemporaryDirectory() as folder:
        path = run_plan(plan.replace(grid=(block,)), "bench-1", results=Path(folder))
        assert path is not None
        (p,) = points(read_record(path))
    found = (p.ar_tpot_s, p.iteration_s, p.draft_s, p.verify_s, p.overhead_s)
    plain, iteration, draft, verify, overhead = (seconds for seconds in found if seconds is not None)
    assert p.speedup is not None
    phases = (p.gamma or 0) * draft + verify + overhead
    where = f"kv-heavy, batch {p.batch}, {DECODER_CONTEXT:,} cached tokens"
    return [
        (f"the baseline, {where}", p.batch / plain, "tokens/s", None),
        (f"self-speculation through {p.draft_kv}, gamma {p.gamma}", p.speedup, "x plain", None),
        ("deciding and committing, of an iteration", 100 * overhead / iteration, "%", None),
        ("the loop beside its phases, of an iteration", 100 * (iteration / phases - 1), "%", None),
    ]


if __name__ == "__main__":
    print(json.dumps({"warm": warm, "million": million, "decoder": decoder}[sys.argv[1]]()))
