"""Computes the 90 % intervals of mean TTFT and of throughput in a row from the interval of its mean TPOT."""

import math
from dataclasses import replace
from typing import NamedTuple

from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.specs import Z, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.specs.engines.stacks import untimed_prompts
from perfmodel.speculation import Scenario


class Ends(NamedTuple):
    """A time, or a factor on a time, at the slow end of its interval, in the middle, and at the fast end."""

    slow: float
    usual: float
    fast: float


def with_intervals(row: TrafficRow, log_off: float | None, scenario: Scenario) -> TrafficRow:
    """The row with intervals of TTFT and throughput.

    - log_off: standard deviation of the logarithm of the row's mean TPOT.

    The error of the mean TTFT is the larger of two errors: the measured error of TTFT for the engine, and the
    error of the TPOT.

    In a closed loop, a client sends its next request when an output ends. The throughput is therefore as
    uncertain as the time of a request. In an open loop, the throughput is the request rate, or the saturation
    rate if that is lower. TTFT has no interval if the slowest passes within their interval would saturate the
    server. For some engines, no times of prompts were measured (`untimed_prompts`). In this case, neither
    TTFT nor the throughput of a closed loop has an interval.

    Outputs of one token have no TPOT, so they are as uncertain as passes. A server on which no request fits
    has no intervals.
    """
    unknown = replace(row, ttft_interval=None, throughput_interval=None)
    if log_off is None or not row.saturation_rate:
        return unknown
    engine = engine_of(scenario.machine.calibration)
    untimed = untimed_prompts(engine)
    opens = row.request_rate is not None and row.concurrency is None
    if untimed and not opens:
        return unknown
    passes = Ends(math.exp(Z * log_off), 1.0, math.exp(-Z * log_off))
    tpot = _tpot_factors(row, passes)
    ttft_s = _ttft_s(row, tpot, request_constants().ttft_error(engine).log_rms)
    if opens:
        request_s = _between_requests_s(row, passes)
        if untimed or request_s.slow > request_s.usual:
            ttft_s = None
    else:
        assert ttft_s is not None
        request_s = _request_s(row, ttft_s, tpot)
    usual = row.output_tokens_per_s * request_s.usual
    return replace(
        row,
        ttft_interval=None if ttft_s is None else (ttft_s.fast, ttft_s.slow),
        throughput_interval=(usual / request_s.slow, usual / request_s.fast),
    )


def _tpot_factors(row: TrafficRow, passes: Ends) -> Ends:
    """The factors on the mean TPOT. Outputs of one token have no TPOT, so the factors are those of passes."""
    if row.tpot_interval is None or not row.tpot_s.mean:
        return passes
    fastest_s, slowest_s = row.tpot_interval
    return Ends(slowest_s / row.tpot_s.mean, 1.0, fastest_s / row.tpot_s.mean)


def _ttft_s(row: TrafficRow, tpot: Ends, log_rms: float) -> Ends | None:
    """The mean TTFT in seconds; None for a saturated server.

    - log_rms: the measured error of TTFT for the engine.
    """
    if row.ttft_s is None or row.e2e_s is None:
        return None
    late = math.exp(Z * log_rms)
    mean_s = row.ttft_s.mean
    return Ends(mean_s * max(tpot.slow, late), mean_s, mean_s * min(tpot.fast, 1.0 / late))


def _request_s(row: TrafficRow, ttft_s: Ends, tpot: Ends) -> Ends:
    """The mean time of a request in a closed loop, in seconds."""
    assert row.ttft_s is not None
    assert row.e2e_s is not None
    decoding_s = row.e2e_s.mean - row.ttft_s.mean
    return Ends(*(first_s + factor * decoding_s for first_s, factor in zip(ttft_s, tpot, strict=True)))


def _between_requests_s(row: TrafficRow, passes: Ends) -> Ends:
    """The mean time between two requests that an open loop serves, in seconds. It is limited by the request
    rate or by the saturation rate.
    """
    assert row.request_rate is not None
    arriving_s = 1.0 / row.request_rate
    return Ends(*(max(arriving_s, factor / row.saturation_rate) for factor in passes))
