"""Computes the 90 % intervals of mean TTFT and of throughput in a row from the interval of its mean TPOT."""

import math
from dataclasses import replace

from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.specs import Z, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.specs.engines.stacks import untimed_prompts
from perfmodel.speculation import Scenario


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

    Answers of one token have no TPOT, so they are as uncertain as passes. A server on which no request fits
    has no intervals.
    """
    if log_off is None or not row.saturation_rate:
        return replace(row, ttft_interval=None, throughput_interval=None)
    ttft = None
    seconds = list[float]()
    passes = [math.exp(Z * log_off), 1.0, math.exp(-Z * log_off)]
    slowed = passes
    if row.tpot_interval is not None and row.tpot_s.mean:
        fastest_s, slowest_s = row.tpot_interval
        slowed = [tpot_s / row.tpot_s.mean for tpot_s in (slowest_s, row.tpot_s.mean, fastest_s)]
    engine = engine_of(scenario.machine.calibration)
    if row.ttft_s is not None and row.e2e_s is not None:
        late = math.exp(Z * request_constants().ttft_error(engine).log_rms)
        later = max(slowed[0], late)
        sooner = min(slowed[2], 1.0 / late)
        ttft = [row.ttft_s.mean * by for by in (later, 1.0, sooner)]
        decoding = row.e2e_s.mean - row.ttft_s.mean
        seconds = [until + by * decoding for until, by in zip(ttft, slowed, strict=True)]
    if row.request_rate is not None and row.concurrency is None:
        seconds = [max(1.0 / row.request_rate, by / row.saturation_rate) for by in passes]
        ttft = None if seconds[0] > seconds[1] else ttft
    if untimed_prompts(engine):
        if row.request_rate is None or row.concurrency is not None:
            return replace(row, ttft_interval=None, throughput_interval=None)
        ttft = None
    usual = row.output_tokens_per_s * seconds[1]
    low = usual / seconds[0]
    high = usual / seconds[2]
    return replace(
        row,
        ttft_interval=None if ttft is None else (ttft[2], ttft[0]),
        throughput_interval=(low, high),
    )
