"""The lengths and the rate of a trace, which replace those that a question does not state."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_words import RATES
from perfmodel.errors import refuse
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.trace import read_trace
from perfmodel.reading import check_regular
from perfmodel.specs import ModelSpec

LEAST_OUTPUT = 1.001
"""Least mean output length of a trace, in tokens: a request needs a second token to have a TPOT."""
RATE_DIGITS = 4


def trace_of(path: str) -> Arrivals:
    """The requests of a file; a file that does not change is read once. Raises InputError."""
    where = Path(path)
    check_regular(where)
    return _read(path, where.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: str, stamp: int) -> Arrivals:
    return read_trace(path)


def lengths_of(trace: Arrivals) -> Lengths:
    """Means and standard deviations of the lengths of a trace's requests, in tokens."""
    prompts = trace.input_tokens.astype(float)
    outputs = trace.output_tokens.astype(float)
    return Lengths(prompts.mean(), max(outputs.mean(), LEAST_OUTPUT), prompts.std(), outputs.std())


def rate_of(trace: Arrivals) -> float | None:
    """Requests per second; None if all arrive at the same time."""
    if trace.at_s[-1] > 0:
        return (trace.at_s.size - 1) / float(trace.at_s[-1])
    return None


def trace_values(question: TrafficQuery) -> dict[str, Any]:
    """The trace's lengths and rate, where the question states none. Raises InputError."""
    if question.trace is None:
        return {}
    trace = trace_of(question.trace)
    lengths = lengths_of(trace)
    from_trace = dict[str, Any]()
    means = {"input": round(lengths.input_mean), "output": max(round(lengths.output_mean), 2)}
    for name, mean in means.items():
        if getattr(question, f"{name}_len") is None:
            std = min(getattr(lengths, f"{name}_std"), mean / 3**0.5)
            from_trace |= {f"{name}_len": mean, f"{name}_std": std}
    if question.request_rate is None and question.max_concurrency is None and question.rollout is None:
        rate = rate_of(trace)
        if rate is None:
            from_trace["max_concurrency"] = (trace.at_s.size,)
        else:
            if not RATES[0] <= rate <= RATES[1]:
                raise refuse(question.trace, "requests per second", f"{RATES[0]:g} to {RATES[1]:g}", rate)
            from_trace["request_rate"] = (float(f"{rate:.{RATE_DIGITS}g}"),)
    return from_trace


def check_fits(path: str, trace: Arrivals, target: ModelSpec) -> None:
    """Refuse (InputError) a request that is longer than the model's positions."""
    longest = trace.input_tokens + trace.output_tokens
    most = target.max_position_embeddings
    too_long = int(np.sum(longest > most))
    if too_long:
        raise refuse(
            path,
            f"{too_long} of {longest.size} requests",
            f"input and output together at most {target.name}'s {most} positions",
            f"up to {longest.max()}",
        )
