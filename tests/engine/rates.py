"""A live vLLM under Poisson arrivals, and what the traffic model says of it from the calibration of its bench
files.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.replay import replay
from perfmodel.specs import Calibration
from perfmodel.speculation import Acceptance, with_calibration

RATE_GAMMAS = (0, 2)
SHARES = (0.25, 0.5, 0.75)
"""Rates, of the requests a second that the baseline's fullest run of the benchmark served."""
PROMPT = 256
OUTPUT = 160
REQUESTS = 60
LIMITS = Limits(max_num_seqs=16, max_num_batched_tokens=2048)
"""Of the server: `tests.engine.servers`, and vLLM's budget of a pass on a CPU."""
FIGURES = ("mean_tpot_ms", "mean_ttft_ms", "output_throughput")


def rates(fullest: Path) -> list[float]:
    """Requests per second of the three runs."""
    return [
        round(share * json.loads(fullest.read_text())["output_throughput"] / OUTPUT, 2) for share in SHARES
    ]


def errors(folder: Path, query: Query, calibration: Calibration) -> Iterator[tuple[str, dict[str, float]]]:
    """Name of a run -> predicted over measured less 1, for each figure; acceptance is what the server
    counted.
    """
    for path in sorted(folder.glob("rate-K*.json")):
        run = json.loads(path.read_text())
        gamma = int(path.name.removeprefix("rate-K").partition("-")[0])
        gained = run.get("spec_decode_acceptance_length")
        known = Acceptance.from_tokens_per_iteration(gained, gamma) if gamma else None
        scenario = with_calibration(resolve(replace(query, gamma=gamma), known), calibration)
        lengths = Lengths(float(np.mean(run["input_lens"])), float(np.mean(run["output_lens"])))
        requests = arrivals(lengths, REQUESTS, float(run["request_rate"]), 1.0, seed=1)
        met = replay(step_times(scenario, lengths, LIMITS, [gamma])[0], lengths, LIMITS, requests)
        predicted = (
            met.tpot_s.mean() * 1e3,
            met.ttft_s.mean() * 1e3,
            met.output_tokens.sum() / met.duration_s,
        )
        yield (
            path.stem,
            {name: float(value / run[name] - 1) for name, value in zip(FIGURES, predicted, strict=True)},
        )
