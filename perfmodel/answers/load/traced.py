"""Computes the lengths and the request rate of a trace, for questions that do not state them."""

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
from perfmodel.uniform import largest_std

LEAST_OUTPUT = 1.001
"""Smallest mean output length of a trace, in tokens. It is above 1, because a request needs a second token to
have a TPOT.
"""
RATE_DIGITS = 4
"""Significant digits of the rate of a trace."""


def trace_of(path: str) -> Arrivals:
    """The requests of a trace file. The last file that was read is cached until it changes. Raises InputError
    for a wrong file.
    """
    where = Path(path)
    check_regular(where)
    return _read(path, where.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: str, stamp: int) -> Arrivals:
    return read_trace(path)


def lengths_of(trace: Arrivals) -> Lengths:
    """The means and standard deviations of the prompt and output lengths of a trace, in tokens."""
    prompts = trace.input_tokens.astype(float)
    outputs = trace.output_tokens.astype(float)
    return Lengths(prompts.mean(), max(outputs.mean(), LEAST_OUTPUT), prompts.std(), outputs.std())


def rate_of(trace: Arrivals) -> float | None:
    """The mean request rate of a trace, in requests per second; None if all requests arrive at the same
    time.
    """
    if trace.at_s[-1] > 0:
        return (trace.at_s.size - 1) / float(trace.at_s[-1])
    return None


def trace_values(question: TrafficQuery) -> dict[str, Any]:
    """Values for arguments that the question does not state: the lengths and the request rate of its trace.
    Raises InputError for a wrong file.
    """
    if question.trace is None:
        return {}
    trace = trace_of(question.trace)
    from_trace = _unstated_lengths(question, trace)
    if question.request_rate is None and question.max_concurrency is None and question.rollout is None:
        from_trace |= _load_of(question.trace, trace)
    return from_trace


def _unstated_lengths(question: TrafficQuery, trace: Arrivals) -> dict[str, Any]:
    """Whole mean lengths, and their standard deviations up to that of a uniform distribution."""
    lengths = lengths_of(trace)
    from_trace = dict[str, Any]()
    if question.input_len is None:
        mean = round(lengths.input_mean)
        from_trace |= {"input_len": mean, "input_std": min(lengths.input_std, largest_std(mean))}
    if question.output_len is None:
        mean = max(round(lengths.output_mean), 2)
        from_trace |= {"output_len": mean, "output_std": min(lengths.output_std, largest_std(mean))}
    return from_trace


def _load_of(path: str, trace: Arrivals) -> dict[str, tuple[float, ...]]:
    """The request rate of the trace. If all requests arrive at the same time, the load is one client per
    request. Raises InputError for a rate outside `RATES`.
    """
    rate = rate_of(trace)
    if rate is None:
        return {"max_concurrency": (trace.at_s.size,)}
    if not RATES[0] <= rate <= RATES[1]:
        raise refuse(path, "requests per second", f"{RATES[0]:g} to {RATES[1]:g}", rate)
    return {"request_rate": (float(f"{rate:.{RATE_DIGITS}g}"),)}


def check_fits(path: str, trace: Arrivals, target: ModelSpec) -> None:
    """Raises InputError if a request of the trace has more tokens than the model has positions."""
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
