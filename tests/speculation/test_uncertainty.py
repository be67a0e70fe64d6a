"""Intervals: widths from stated errors only, wider where less is known, and right as often as they say."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.specs import MeasuredRange, Scatter, StatedFit, Z, source_errors
from perfmodel.specs.engines.engines import engines
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation import (
    Acceptance,
    Passes,
    Scenario,
    acceptance_log_error,
    doublings,
    interval_ends,
    interval_of,
    is_transferred,
    iteration_log_error,
    log_error,
    ratio_log_error,
    speedup_interval,
    speedups,
    step_log_error,
    widening,
    with_calibration,
    with_values,
)
from perfmodel.speculation.constants_variance import variance_of
from perfmodel.speculation.evidence import is_measured, speedup_class, step_class
from perfmodel.speculation.uncertainty import stated_log_error
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.studies import gate

ASKED = Query(
    "llama-3.1-8b",
    "h100-sxm-80gb",
    64,
    32000,
    3,
    tp=8,
    draft_kv="streamingllm:512",
    tokens_per_iteration=2.95,
    calibration="h100-sxm-80gb.magicdec",
)
"""Acceptance is known at this draft length, so that the interval is the calibration's alone."""


def test_stated_coverage_is_seen_on_rows_left_out() -> None:
    """90 % stated; over both devices and the gate's folds at least 85 % and by far not every row (as
    recorded).
    """
    coverage = gate.read(BUNDLED / "accuracy.json")["coverage"]
    counts = [fold["point"] for fold in coverage.values()]
    inside = sum(c["inside"] for c in counts)
    rows = sum(c["rows"] for c in counts)
    assert 0.85 <= inside / rows <= 0.95


SERVED = Query("gpt-oss-120b", "h200-sxm-141gb", 16, 8192, 3, draft="eagle:features=3", alpha=0.6)


def test_acceptance_known_at_the_length_asked_adds_nothing() -> None:
    known = replace(SERVED, alpha=None, tokens_per_iteration=2.176)
    scenario = resolve(known)
    carried = resolve(SERVED)
    gammas = np.array([1, 3, 5])
    at = np.asarray(16.0), np.asarray(8192.0), gammas
    at_the_length = log_error(scenario, *at)
    more = log_error(carried, *at)
    off = engines().acceptance.deviation
    carried_from_1 = (off * np.log([1, 2, 3])) ** 2
    carried_from_3 = (off * np.log([2, 1, 1.5])) ** 2
    added = more**2 - at_the_length**2
    np.testing.assert_allclose(added, carried_from_1 - carried_from_3)
    positions = Acceptance.from_positions((0.6, 0.5, 0.5, 0.4, 0.4, 0.3, 0.3))
    by_position = replace(carried, acceptance=positions)
    assert np.all(acceptance_log_error(by_position, gammas) == 0)


def test_a_ratio_at_known_acceptance_errs_by_the_calibration_alone() -> None:
    """The error of its class, and of a context beyond the longest that was fitted; nothing at gamma 0."""
    carried = resolve(SERVED)
    c = carried.machine.calibration
    passes = Passes(carried, 16.0, 8192.0, np.array([3]))
    stated = source_errors().speedups["known"].deviation_on(carried.machine.gpu)
    stated *= extra_share(passes.ratios().item())
    beyond = math.log(8192 / c.longest_tokens) * c.unseen_context.deviation
    known = math.hypot(stated, beyond)
    assert beyond > 0
    ratio = passes.ratios().item()
    assert ratio_log_error(carried, passes, ratio) == pytest.approx(known)
    ideal = resolve(replace(SERVED, calibration="ideal"))
    ideal_passes = Passes(ideal, 16.0, 8192.0, np.array([3]))
    assert ratio_log_error(ideal, ideal_passes, 1.2) is None
    assert step_log_error(ideal, ideal.target_step(16.0, 8192.0), 16.0, 8192.0) is None
    plain = log_error(carried, np.asarray(16.0), np.asarray(8192.0), np.array([0]))
    assert float(plain[0]) == 0.0


def test_a_middle_moves_both_ends_by_the_extra_time_and_never_past_the_speedup() -> None:
    """Of 3 tokens and a speedup of 1.5 half an iteration is extra time; without an error nothing moves."""
    error = np.array([0.1 / Z, 0.1 / Z, 0.0])
    low, high = interval_ends(np.full(3, 1.5), error, np.full(3, 3.0), -0.1)
    np.testing.assert_allclose(low, [1.5 * math.exp(-0.15), 1.5 * math.exp(-0.15), 1.5])
    np.testing.assert_allclose(high, [1.5 * math.exp(0.05), 1.5 * math.exp(0.05), 1.5])
    low, high = interval_ends(1.5, 0.1 / Z, 3.0, -1.0)
    assert (float(low), float(high)) == pytest.approx((1.5 * math.exp(-0.6), 1.5))
    low, high = interval_ends(1.5, 0.1 / Z, 3.0, 1.0)
    assert (float(low), float(high)) == pytest.approx((1.5, 1.5 * math.exp(0.6)))


def test_intervals_by_hand() -> None:
    """Errors of 0.03 and 0.04 are one of 0.05; an interval ends at the tokens per iteration and holds its
    middle.
    """
    interval = interval_of(2.0, 0.03, 0.04)
    assert interval[0] == pytest.approx(2 * math.exp(-0.05 * Z))
    assert interval[1] == pytest.approx(2 * math.exp(0.05 * Z))
    scenario = resolve(ASKED)
    stated = {"speedup": Scatter(log_rms=0.2, rows=10, source="by hand")}
    exact = scenario.machine.calibration.replace(fit=None, observed_error=stated)
    for value, high in ((2.5, 2.95), (3.5, 3.5)):
        ends = speedup_interval(with_calibration(scenario, exact), 64, 32000, 3, value)
        low = value * math.exp(-0.2 * Z)
        assert ends == pytest.approx((low, high))


def test_an_error_is_wider_by_each_doubling_beyond_what_an_engine_was_measured_at() -> None:
    """0.35 of a doubling is free; another model, another draft and gamma 7 beyond 3 (8 tokens for 4) count as
    one.
    """
    batches = np.array([1, 2, 16, 32, 64.0])
    assert doublings(batches, (4, 16)) == pytest.approx([1.65, 0.65, 0, 0.65, 1.65])
    scenario = resolve(ASKED)

    def wider(batch: float, context: float, gammas: list[int] | None, **other: str) -> float:
        draft = scenario.draft
        measured = {"model": "llama-3.1-8b", "draft": draft.name, "draft_kv": draft.kv.label()}
        known = measured | other
        measured_range = MeasuredRange(**known, batch=(1, 64), context=(1000, 8000), gamma=(0, 3))
        ranged = with_calibration(scenario, scenario.machine.calibration.replace(measured=measured_range))
        # rows of such a calibration time iterations: a ratio's error is that of two
        assert iteration_log_error(ranged, 0.1, 0.2) == 0.2 / 2**0.5
        assert iteration_log_error(ranged, 0.3, 0.2) == 0.3
        lengths = None if gammas is None else np.array(gammas)
        return np.asarray(widening(ranged, batch, context, lengths)).tolist()

    assert wider(64.0, 8000.0, None) == 1.0
    assert wider(256.0, 32000.0, None) == 1 + 0.5 * 2 * 1.65
    assert wider(64.0, 8000.0, None, model="other") == 1.5
    three_lengths = wider(64.0, 16000.0, [0, 3, 7])
    assert three_lengths == pytest.approx([1.325, 1.325, 1.65])
    assert wider(64.0, 8000.0, [0, 1], draft="eagle") == [1, 1.5]
    assert wider(64.0, 8000.0, [0, 1], draft_kv="full") == [1, 1.5]
    assert widening(scenario, 1e6, 1e6) == 1.0  # nothing was measured


def test_variance_of_one_constant_is_its_slope_times_its_error() -> None:
    """Against a difference of its own, of a time (up) and of a share of the bandwidth (down), and of both
    together.
    """
    scenario = resolve(replace(ASKED, hardware="a100-sxm-80gb", calibration="a100-sxm-80gb.magicdec"))
    c = scenario.machine.calibration
    at = np.asarray(64.0), np.asarray(32000.0), np.array([3])

    def variance(of: Scenario) -> float:
        return float(variance_of(of, Passes(of, *at))[0])

    def slope(name: str, step: float) -> float:
        value = getattr(c, name).value + step
        moved = with_calibration(scenario, with_values(c, {name: value}))
        ratio = speedups(moved, *at) / speedups(scenario, *at)
        return float(np.log(ratio)[0]) / abs(step)

    time = "small_kernel_s"
    share = "attention_bandwidth_fraction"
    time_error = getattr(c, time).stderr
    share_error = getattr(c, share).stderr
    up = slope(time, 0.25 * time_error)
    down = -slope(share, -0.25 * share_error)
    of_time = (up * time_error) ** 2
    of_share = (down * share_error) ** 2
    both = of_time + of_share - math.sqrt(of_time * of_share)
    for parameters, rows, expected in (
        ((time,), ((1.0,),), of_time),
        ((share,), ((1.0,),), of_share),
        ((time, share), ((1.0,), (-0.5, 1.0)), both),
    ):
        fitted = c.replace(fit=StatedFit(parameters=parameters, correlation=rows))
        assert variance(with_calibration(scenario, fitted)) == pytest.approx(expected, rel=1e-6)
    shares = StatedFit(parameters=(share,), correlation=((1.0,),))
    value = getattr(c, share).value
    at_most_half = slope(share, -value / 2)  # a step takes a half of a share at most
    for stderr, expected in ((4 * value, (at_most_half * 4 * value) ** 2), (None, 0.0)):
        unsure = getattr(c, share).replace(stderr=stderr)
        fitted = c.replace(**{"fit": shares, share: unsure})
        assert variance(with_calibration(scenario, fitted)) == pytest.approx(expected)
    assert variance(with_calibration(scenario, c.replace(fit=None))) == 0.0
    assert is_transferred(resolve(replace(ASKED, hardware="h800-sxm-80gb")))
    assert not is_transferred(scenario)


@pytest.mark.parametrize(("name", "value"), [("expert_popularity", 2.0), ("routing_independence", 0.5)])
def test_constants_of_experts_change_the_weights_that_are_read(name: str, value: float) -> None:
    """The counts follow the constant, so the slope is that of a speedup that was computed anew."""
    calibration = "a100-sxm-80gb.magicdec"
    moe = replace(ASKED, model="qwen3-30b-a3b", hardware="a100-sxm-80gb", calibration=calibration)
    plain = resolve(moe)
    constant = getattr(plain.machine.calibration, name).replace(value=value, stderr=0.2)
    fit = StatedFit(parameters=(name,), correlation=((1.0,),))
    c = plain.machine.calibration.replace(**{name: constant, "fit": fit})
    scenario = with_calibration(plain, c)
    at = np.asarray(8.0), np.asarray(8000.0), np.array([3])
    moved = with_calibration(scenario, with_values(c, {name: value + 0.05}))
    slope = math.log(float((speedups(moved, *at) / speedups(scenario, *at))[0])) / 0.05
    assert abs(slope) > 1e-3
    assert float(variance_of(scenario, Passes(scenario, *at))[0]) == pytest.approx(
        (slope * 0.2) ** 2, rel=1e-6
    )


@pytest.mark.parametrize(
    ("gpu", "engine", "name"),
    [
        ("h200", "vllm", "own"),
        ("h100-sxm-94gb", "vllm@0.14", "own"),  # Qwen3-32B was measured on it, with kernels of another board
        ("h800", "vllm", "borrowed"),
        ("rtx-3090", "llamacpp", "llamacpp"),
    ],
)
def test_a_step_is_as_wide_as_errors_of_sources_left_out_in_its_class(gpu, engine, name) -> None:
    scenario = resolve(Query("qwen3-32b", gpu, 8, 4000, engine=engine))
    assert step_class(scenario) == name
    step = scenario.target_step(8.0, 4000.0)
    width = float(step_log_error(scenario, step, 8.0, 4000.0))
    errors = source_errors().steps[name]
    assert width == pytest.approx(errors.deviation_on(scenario.machine.gpu))


@pytest.mark.parametrize(
    ("engine", "draft", "name", "measured"),
    [
        ("vllm", "eagle:features=3", "known", True),
        ("vllm", "ngram", "new", False),
        ("llamacpp", "mtp", "llamacpp", False),  # no run of llama.cpp on such a device
        ("llamacpp", "ngram", "new", False),
    ],
)
def test_a_speedup_is_as_wide_as_those_of_its_draft_in_its_engine(engine, draft, name, measured) -> None:
    question = replace(SERVED, model="qwen3-next-80b-a3b", batch=1, context=1000, engine=engine, draft=draft)
    scenario = resolve(question)
    assert speedup_class(scenario) == name
    assert is_measured(scenario) == measured
    passes = Passes(scenario, 1.0, 1000.0, np.array([0, 3]))
    _, drafting = stated_log_error(scenario, passes, passes.ratios)
    _, ratio = passes.ratios()
    deviation = source_errors().speedups[name].deviation_on(scenario.machine.gpu)
    assert drafting == pytest.approx(deviation * extra_share(ratio))


def test_borrowed_constants_are_as_wide_as_errors_by_another_engine_and_never_sure() -> None:
    scenario = resolve(Query("qwen3-32b", "h200", 8, 4000, engine="vllm", draft="eagle3", alpha=0.7))
    assert is_measured(scenario)
    calibration = scenario.machine.calibration
    borrows = with_calibration(scenario, calibration.replace(constants_of="sglang"))
    assert step_class(borrows) == speedup_class(borrows) == "other_engine"
    step = borrows.target_step(8.0, 4000.0)
    deviation = source_errors().steps["other_engine"].deviation_on(borrows.machine.gpu)
    assert float(step_log_error(borrows, step, 8.0, 4000.0)) == pytest.approx(deviation)
    assert not is_measured(borrows)


def test_own_rows_and_research_stacks_state_their_own_errors() -> None:
    scenario = resolve(ASKED)
    assert step_class(scenario) is None
    assert speedup_class(scenario) is None
    assert is_measured(scenario) is True
    assert not is_measured(resolve(replace(ASKED, hardware="h800-sxm-80gb")))


@pytest.mark.parametrize(("ratio", "share"), [(1.0, 0.1), (1.1, 0.1), (1.25, 0.2), (2.0, 0.5)])
def test_a_tenth_of_an_iteration_is_extra_time_at_least(ratio: float, share: float) -> None:
    assert extra_share(ratio) == pytest.approx(share)
