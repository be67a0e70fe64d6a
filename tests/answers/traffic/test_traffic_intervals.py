"""Intervals of ``traffic``: of TPOT by its fit, and of TTFT and throughput by that of TPOT."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.load import tpot_errors
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow
from perfmodel.answers.question import Query, resolve
from perfmodel.specs import Z
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.speculation import Acceptance, Scenario, step_log_error


def on_h100() -> Scenario:
    return resolve(Query(model="llama-3.1-8b", hardware="h100", batch=1, context=1000, gamma=0))


def served_row(rate: float | None, clients: int | None, factor: float) -> TrafficRow:
    """First tokens after 1 s and whole requests of 3 s, or a server that is saturated at 3 requests/s.

    - factor: the error of the TPOT, at either end.
    """
    tpot, *more = (Percentiles(seconds, *[seconds] * 3) for seconds in (0.01, 1.0, 3.0))
    first, whole = more if rate != 3.0 else (None, None)
    return TrafficRow(
        request_rate=rate,
        concurrency=clients,
        gamma=0,
        running_mean=1.0,
        tpot_s=tpot,
        ttft_s=first,
        e2e_s=whole,
        output_tokens_per_s=100.0,
        requests_per_s=1.0,
        saturation_rate=2.0,
        kv_share=0.1,
        tpot_interval=(0.01 / factor, 0.01 * factor),
        tokens_per_iteration=1.0,
    )


@pytest.mark.parametrize(
    ("rate", "clients", "factor", "ttft", "tokens"),
    [  # requests of 1 s and 2 s, with passes up to twice as slow and as fast; at most 2 requests/s
        (None, 8, 2.0, (0.5, 2.0), (300 / 6, 300 / 1.5)),
        (0.5, None, 2.0, (0.5, 2.0), (100, 100)),
        (1.5, None, 2.0, None, (100 / 1.5, 100)),
        (3.0, None, 2.0, None, (50, 150)),
        (1.5, 8, 1.0, (math.exp(-Z * 0.22), math.exp(Z * 0.22)), (300 / 3.4360, 300 / 2.6964)),  # vLLM's own
    ],
)
def test_intervals_of_ttft_and_throughput_follow_from_that_of_tpot(rate, clients, factor, ttft, tokens):
    row = served_row(rate, clients, factor)
    widened = with_intervals(row, math.log(factor) / Z, on_h100())
    assert widened.ttft_interval == (ttft and pytest.approx(ttft))
    assert widened.throughput_interval == pytest.approx(tokens, rel=1e-3)


@pytest.mark.parametrize(("rate", "clients"), [(0.5, None), (None, 8)])
def test_a_server_on_which_no_request_fits_has_no_intervals(rate, clients) -> None:
    row = replace(served_row(rate, clients, 2.0), saturation_rate=0.0)
    widened = with_intervals(row, math.log(2.0) / Z, on_h100())
    assert widened.ttft_interval is None
    assert widened.throughput_interval is None


def test_an_iteration_errs_as_one_row_of_a_ratio_and_no_less_than_a_step() -> None:
    """A step of 4 %, ratios whose rows err by 0, 3 and 7.2 %, and requests of 3 %."""
    ratios = np.array([0.0, 0.03, 0.072]) * 2**0.5
    errors = tpot_errors.combined(step=0.04, ratio=ratios, requests=0.03)
    assert errors == pytest.approx([0.05, 0.05, 0.078])


def test_the_baseline_errs_as_a_step_and_the_requests_of_its_engine() -> None:
    question = TrafficQuery("llama-3.1-8b", "h100", 1000, 100, request_rate=1)
    scenario = resolve(question.query(batch=1, context=1000, gamma=0), Acceptance.from_alpha(0.6))
    step = float(np.max(step_log_error(scenario, None, 1, 1000)))
    requests = request_constants().error("vllm").log_rms
    assert requests > 0.01
    stated = tpot_errors.served_log_errors(scenario, 1, 1000, [0])
    assert stated == pytest.approx({0: math.hypot(step, requests)})


def test_llama_cpp_states_no_interval_of_a_ttft_that_was_never_fitted(capsys) -> None:
    ask = {"input_len": 8024, "output_len": 256, "max_concurrency": 1, "gamma": 0}
    answer = pm.traffic("qwen3.6-27b", "rtx-3090", weights="q4_k_m", **ask)
    (row,) = answer.rows
    assert row.tpot_interval is not None
    assert row.ttft_interval is None
    assert row.throughput_interval is None
    assert any("TTFT is a rough guide without an interval" in warning for warning in answer.warnings)
    (open_loop,) = pm.traffic(
        "qwen3.6-27b", "rtx-3090", 8024, 256, weights="q4_k_m", request_rate=0.01, gamma=0
    ).rows
    assert open_loop.ttft_interval is None
    assert open_loop.throughput_interval is not None
    (served,) = pm.traffic("qwen3-8b", "h100", **ask).rows
    assert served.ttft_interval is not None


def test_answers_of_one_token_have_intervals_of_their_first_token_and_no_other(tmp_path: Path) -> None:
    trace = tmp_path / "one.jsonl"
    request = '{{"timestamp": {}, "input_length": 100, "output_length": 1}}'
    trace.write_text("\n".join(request.format(1000 * second) for second in range(50)))
    (row, *_) = pm.traffic("llama-3.1-8b", "h100", trace=str(trace)).rows
    assert row.ttft_s is not None
    assert row.ttft_interval is not None
    assert row.tpot_interval is None
    low, high = row.ttft_interval
    assert low < row.ttft_s.mean < high
    assert row.throughput_interval == pytest.approx((row.output_tokens_per_s,) * 2)
    assert {type(row.output_tokens_per_s), type(row.requests_per_s), type(row.kv_share)} == {float}
