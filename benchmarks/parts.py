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
from dataclasses import astuple, dataclass, replace
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
PER_SECOND = {"us": 1e6, "ms": 1e3, "s": 1.0}


@dataclass(frozen=True)
class Row:
    """One line of the table; `target`, `value` and `wall` in the same unit. wall: of times, the time that
    passes; `value` is then processor time.
    """

    what: str
    value: float
    unit: str
    target: float | None = None
    wall: float | None = None


@dataclass(frozen=True)
class Median:
    """Medians of several runs, in seconds."""

    processor_s: float
    wall_s: float

    def row(self, what: str, unit: str, target: float | None = None) -> Row:
        """The line of the table."""
        factor = PER_SECOND[unit]
        return Row(what, self.processor_s * factor, unit, target, self.wall_s * factor)


def median(work: Callable[[], object], runs: int) -> Median:
    """Of several runs, after one that does not count."""
    work()
    return median_of([work] * runs)


def median_of(works: Sequence[Callable[[], object]]) -> Median:
    """Of different works."""
    processor_s = []
    wall_s = []
    for work in works:
        started = time.perf_counter()
        start = time.process_time()
        work()
        processor_s.append(time.process_time() - start)
        wall_s.append(time.perf_counter() - started)
    return Median(statistics.median(processor_s), statistics.median(wall_s))


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


def warm() -> list[Row]:
    """Answers in a running process; the first row is the yardstick."""
    scenario = resolve(QUERY)
    one = Workload.of(64, 32000, 2)
    thousand = grid(1024)
    values = np.linspace(0, 1, 1_000_000)
    rates = np.linspace(0.01, 0.8, 250).tolist()  # below those that are replayed
    loads = SERVER | {"request_rate": rates, "gamma": "1,3,5"}
    yardstick = median(lambda: np.exp(values), 20)
    answer = median(lambda: figures(predict(scenario, one)), 200)
    lengths = median(lambda: with_lengths(scenario, one), 50)
    return [
        yardstick.row("np.exp of 1,000,000 doubles (the yardstick)", "ms"),
        answer.row("one answer", "us", 250),
        lengths.row("one answer with the three context lengths", "ms", 5),
        *whatifs(),
        *handles(),
        median(lambda: figures(predict(scenario, thousand)), 50).row("1,024 answers", "ms", 5),
        median(lambda: traffic(**SERVER), 5).row("a question about traffic", "ms"),
        median(lambda: traffic(**loads), 2).row("1,000 rates and draft lengths of traffic", "s"),
    ]


def whatifs() -> list[Row]:
    """Whole what-ifs about a question of each kind of draft: the same again, and different ones.

    All of them have names, lengths, interval, remedies, warnings and memory. The passes are compiled.
    """
    draw = np.random.default_rng(7)
    rows: list[Row] = []
    for kind, query in QUESTIONS.items():
        for number in range(WARM_UP):
            whatif(query, context=20_000 + number)
        others = [
            replace(query, batch=int(batch), context=int(context))
            for batch, context in zip(draw.integers(1, 200, 50), draw.integers(500, 40_000, 50), strict=True)
        ]
        again = median(partial(whatif, query), 50)
        each = median_of([partial(whatif, other) for other in others])
        rows.append(again.row(f"a repeated what-if, {kind}", "ms", 3))
        rows.append(each.row(f"median of 50 different what-ifs, draft: {kind}", "ms", 3))
    return rows


def handles() -> list[Row]:
    """A predictor: made, and asked for numbers, for arrays and for a mixed batch."""
    subject = {"model": "qwen3-32b", "hardware": "h100", "tp": 2, "draft": "eagle3", "gamma": 3}
    p = predictor(**subject)
    draw = np.random.default_rng(1)
    batches = draw.integers(1, 257, 10_000).astype(float)
    contexts = draw.integers(1, 100_001, 10_000).astype(float)
    new = np.append(np.ones(64), 2000.0)
    past = np.append(np.full(64, 4000.0), 0.0)
    step = median(lambda: p.step_s(16, 8192), 2000)
    question = median(lambda: whatif(QUERY), 20)
    return [
        median(lambda: predictor(**subject).iteration_s(1, 1), 10).row("creating a predictor", "ms"),
        step.row("a step from a predictor", "us", 100),
        Row(
            "time of a what-if divided by the time that a predictor needs for one step",
            question.processor_s / step.processor_s,
            "x",
        ),
        median(lambda: p.iteration_s(16, 8192), 1000).row("an iteration from a predictor", "us", 100),
        median(lambda: p.draft_s(16, 8192), 1000).row("a drafted token from a predictor", "us", 100),
        median(lambda: p.verify_s(16, 8192), 1000).row("a verification from a predictor", "us", 100),
        median(lambda: p.prefill_s(2000, 4000), 1000).row("a prompt from a predictor", "us", 100),
        median(lambda: p.forward_s(new, past), 500).row(
            "one pass with 64 decoding requests and one prompt", "us", 100
        ),
        median(lambda: p.step_s(batches, contexts), 50).row("10,000 steps in one call", "ms", 10),
        median(lambda: p.iteration_s(batches, contexts), 50).row("10,000 iterations in one call", "ms", 10),
    ]


def million() -> list[Row]:
    """A million answers, and the memory of their process."""
    scenario = resolve(QUERY)
    points = grid(1_000_000)
    values = np.linspace(0, 1, 1_000_000)
    yardstick = median(lambda: np.exp(values), 20)
    answers = median(lambda: figures(predict(scenario, points)), 3)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    over = answers.processor_s / yardstick.processor_s
    return [
        answers.row("1,000,000 answers", "s"),
        Row("time of 1,000,000 answers, relative to np.exp on as many numbers", over, "x np.exp", 200),
        Row("1,000,000 answers, peak memory", megabytes, "MB", 1000),
    ]


def decoder() -> list[Row]:
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
        Row(f"the baseline, {where}", p.batch / plain, "tokens/s"),
        Row(f"self-speculation with {p.draft_kv}, gamma {p.gamma}", p.speedup, "x baseline"),
        Row(
            "share of an iteration's time for accepting and committing tokens",
            100 * overhead / iteration,
            "%",
        ),
        Row("share of an iteration's time outside the timed phases", 100 * (iteration / phases - 1), "%"),
    ]


if __name__ == "__main__":
    measure = {"warm": warm, "million": million, "decoder": decoder}[sys.argv[1]]
    print(json.dumps([astuple(row) for row in measure()]))
