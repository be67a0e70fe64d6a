"""Served runs replayed, and what a request costs fitted to them."""

import json
import math
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import yaml

from perfmodel.operations import Array
from perfmodel.queueing.load import Limits
from perfmodel.reading import data_folder
from perfmodel.specs.engines.request_costs import EngineRequests
from perfmodel.validate.studies import traffic, traffic_figures, traffic_fit
from perfmodel.validate.studies.measured_gaps import SERVER, gaps_among
from perfmodel.validate.studies.request_fit import (
    SCALES,
    WEIGHED,
    Scale,
    StraightLines,
    solved,
    straight_lines_of,
    within,
)
from perfmodel.validate.studies.served_runs import (
    COOKBOOK,
    DEEPSEEK,
    LONG_PROMPTS,
    STUDIES,
    HeldOutBy,
    ServedRun,
    runs,
)
from perfmodel.validate.studies.traffic import Compared, compare, folds, limits_of


def run_of(study: str, steps: int, concurrency: int):
    wanted = (steps, concurrency)
    return next(run for run in runs(study) if (run.steps, run.concurrency) == wanted)


def test_a_served_run_has_the_memory_of_a_server_with_its_default_seats():
    """vLLM: 1,024 seats on devices of 80 GB or more, 256 on an A100. The others: 2,048 without a draft."""
    every = [run for study in STUDIES for run in runs(study)]
    servers = [(run.engine, traffic.shipped(run).account.server) for run in every]
    seats = {(engine, server.max_num_seqs) for engine, server in servers}
    assert seats == {("vllm", 256), ("vllm", 1024), ("sglang", 2048), ("trtllm", 2048)}


def test_a_served_run_keeps_the_limits_that_its_server_states() -> None:
    run = run_of(STUDIES[0], 0, 1)
    limits = {"max_num_batched_tokens": 999, "scheduler_recv_interval": 7, "attention_dp_timeout_iters": 50}
    of_engine = limits_of(replace(run, **dict.fromkeys(limits)), 1)
    stated = limits_of(replace(run, **limits), 1)
    assert (stated.max_num_batched_tokens, stated.poll_passes, stated.balance_passes) == (999, 7, 50)
    assert of_engine.max_num_batched_tokens > 1000
    assert (of_engine.poll_passes, of_engine.balance_passes) == (
        Limits().poll_passes,
        Limits().balance_passes,
    )
    of_groups = limits_of(replace(run, **limits), 4)
    assert of_groups.max_num_batched_tokens == 4 * 999
    assert of_groups.max_num_seqs == 4 * stated.max_num_seqs
    assert stated.memory_fraction == 0.9, "vLLM's default, which is close to the others'"


def test_a_straight_line_is_solved_and_one_run_far_off_hardly_counts():
    """Residuals 0.2 - move: a wide spread gives 0.2, one of 1 around 0 beside a run of weight 1 gives 0.2 /
    (1 + 1).

    A run that is 30 off weighs 1 / (1 + (29.8 / 3)^2) = 0.01: (9 * 0.2 + 0.01 * 30) / 9.01 = 0.233.
    """
    run = run_of(STUDIES[0], 0, 1)
    first_alone = [[1.0] + [0.0] * (len(SCALES) - 1)]
    line = StraightLines(run, np.array([-0.2]), np.array(first_alone))
    wide = np.full(len(SCALES), 1e3)
    none = np.zeros(len(SCALES))
    before = EngineRequests(request_s=0.05)

    def moved(lines: list[StraightLines], spread: Array = wide) -> float:
        return float(solved(lines, spread, none, before)[0])

    assert moved([line]) == pytest.approx(0.2, abs=1e-3)
    assert moved([line], np.ones(len(SCALES))) == pytest.approx(0.1, abs=1e-3)
    far = StraightLines(run, np.array([-30.0]), line.slopes)
    assert moved([line] * 9 + [far]) == pytest.approx(0.233, abs=2e-3)
    opposite = StraightLines(run, -line.off, line.slopes)
    assert moved([opposite]) == -0.05, "none of it is left"
    # a study weighs at most as 30 runs, beside one run of weight 1 that is 0
    assert moved([line] * 60, np.ones(len(SCALES))) == pytest.approx(0.2 * 30 / 31, abs=1e-4)


def test_a_constant_at_its_limit_moves_the_others_on():
    """x + y = -1, x = 0.2 - y / 2 by hand: where y may fall to -0.3 alone, x is what fits best beside it."""
    slopes = np.array([[1.0, 1.0], [1.0, 0.5]])
    wanted = np.array([-1.0, 0.2])
    lowest = np.array([-9.0, -0.3])
    highest = np.array([9.0, 9.0])
    move = within(slopes.T @ slopes, slopes.T @ wanted, lowest, highest)
    assert move[0] == pytest.approx((-0.7 + 0.35) / 2.0)
    assert move[1] == pytest.approx(-0.3)


def served(concurrency: int, gap_ms: float, steps: int = 0, chunk: float = 1.0) -> ServedRun:
    """A run whose requests all decode at once; chunk: tokens in one, which come every `gap_ms`."""
    unstated: dict[str, Any] = dict.fromkeys(field.name for field in fields(ServedRun))
    stated = {
        "study": "s",
        "engine": "vllm",
        "hardware": "",
        "steps": steps,
        "concurrency": concurrency,
        "input_tokens": 10.0,
        "output_tokens": 1000.0,
        "output_std": 0.0,
        "tokens_per_iteration": 1.0,
        "ttft_mean_ms": 0.0,
        "tpot_mean_ms": 9.0,
        "tpot_p50_ms": gap_ms / chunk,
        "itl_p50_ms": gap_ms,
    }
    return ServedRun(**unstated | stated)


@pytest.mark.parametrize(
    ("measured", "passes_ms"),
    [  # at 2, 5 and 7 sequences; measured at 1, 3 and 5
        ([(1, 20, 0, 1), (3, 40, 0, 1), (5, 70, 0, 1)], [30, 70, 100]),
        ([(1, 20, 0, 1), (3, 40, 0, 1), (5, 30, 0, 1)], [30, 30, 30]),  # a last fall goes no further
        ([(1, 200, 0, 12), (3, 400, 0, 12), (5, 700, 0, 12)], [30, 70, 100]),  # every tenth pass is seen
        ([(1, 20, 0, 1), (3, 299, 0, 1), (5000, 300, 0, 1)], [159.5, 578, 857]),  # the last is too crowded
        ([(3, 40, 0, 1)], [40, 40, 40]),
        # drafts count as the baseline's chunks do
        ([(1, 20, 4, 9), (3, 40, 4, 9), (1, 15, 0, 1)], [30, 60, 80]),
    ],
)
def test_measured_passes_lie_on_lines_between_the_runs_of_a_server(
    measured: list[tuple[int, int, int, int]], passes_ms: list[float]
) -> None:
    rows = [served(*gap) for gap in measured]
    at = np.array([2.0, 5.0, 7.0])
    passes_s = gaps_among(rows[0], rows, rows, at)
    assert passes_s == pytest.approx(np.array(passes_ms) / 1e3)
    crowded = served(11000, 20)
    assert gaps_among(crowded, rows, rows, np.ones(1)) is None, "too far beyond"


def test_an_engine_states_its_own_error_from_twenty_runs_on() -> None:
    lines = traffic_fit.error_lines({"tpot": [0.1] * 30, "vllm": [0.2] * 20, "sglang": [0.3] * 19})
    assert [line.split(", source")[0] for line in lines] == [
        "  tpot: {log_rms: 0.1, rows: 30",
        "  vllm: {log_rms: 0.2, rows: 20",
    ]


@pytest.mark.parametrize(
    ("changes", "is_fitted"),
    [
        ({"output_tokens": 4095.0}, True),
        ({"output_tokens": 4096.0}, False),
        ({"data_parallel_attention": 1}, False),
        ({"study": COOKBOOK}, False),
        ({"study": LONG_PROMPTS, "output_tokens": 9000.0, "data_parallel_attention": 1}, True),
    ],
)
def test_runs_with_short_outputs_or_long_prompts_are_fitted(changes: dict[str, Any], is_fitted: bool) -> None:
    run = replace(served(1, 20), data_parallel_attention=0)
    assert traffic_fit.is_fitted(replace(run, **changes)) is is_fitted


@pytest.mark.parametrize(("clients", "is_known"), [(6, True), (7, False)])
def test_passes_are_known_up_to_twice_the_largest_measured_batch(clients: int, is_known: bool) -> None:
    rows = [served(1, 20), served(3, 40)]
    passes_s = gaps_among(served(clients, 0), rows, rows, np.array([3.0]))
    assert (passes_s is not None) == is_known


def test_a_run_served_again_with_measured_passes_has_their_time_per_token() -> None:
    """Of the one run whose median gap is its mean time per token; predicted passes are 0.06 % longer."""
    run = run_of(STUDIES[1], 0, 1)
    measured = compare(run, HeldOutBy.LENGTH, measured=True).ratios["tpot_mean_ms"]
    predicted = compare(run, HeldOutBy.LENGTH).ratios["tpot_mean_ms"]
    assert measured == pytest.approx(1, abs=1e-9)
    assert predicted != pytest.approx(1, abs=1e-4)


def test_a_constant_moves_in_its_scale_and_where_there_is_room() -> None:
    line = Scale(step=0.4, common=1.0, engine=1.0, most=1.0)
    share = Scale(step=math.log(2), common=1.0, engine=1.0, log=True)
    assert line.moved(0.5, 0.2) == 0.7
    assert line.moved(0.5, 0.6) == 1.0
    assert line.moved(0.5, -0.6) == 0.0
    assert line.trial(0.5) == pytest.approx(0.9)
    assert line.trial(0.6) == pytest.approx(1.0)
    assert line.trial(0.7) == pytest.approx(0.3)
    assert line.between(0.5, 0.7) == pytest.approx(0.2)
    assert share.moved(3.0, math.log(2)) == pytest.approx(6.0)
    assert share.trial(3.0) == pytest.approx(6.0)
    assert share.between(3.0, 6.0) == pytest.approx(math.log(2))


TRUTH = EngineRequests(
    request_s=0.03,
    prompt_token_s=9e-6,
    prompt_factor=1.3,
    prompt_kernel_s=2.5e-5,
    passes_ahead=0.8,
    reserved_bytes=4e9,
)


def straight(run: ServedRun, by: HeldOutBy, costs: EngineRequests, measured: bool = False) -> Compared:
    """Each run sees one of the constants, a step of whose scale is 1 % of TPOT and -30 % of TTFT."""
    assert measured or by is HeldOutBy.STUDY
    number = crc32(run.id.encode()) % len(SCALES)
    seen = [*SCALES][number]
    scale = SCALES[seen]
    one = getattr(TRUTH, seen)
    other = getattr(costs, seen)
    steps = scale.between(one, other) / scale.step
    ratio = math.exp(0.01 * steps)
    ratios = {"tpot_mean_ms": 1.02 * ratio, "ttft_mean_ms": ratio**-30}
    return Compared(run, ratios, 0.1)


def test_constants_that_made_the_runs_are_fitted_and_written() -> None:
    run = run_of(STUDIES[0], 7, 4)
    line = straight_lines_of(run, straight)
    seen = crc32(run.id.encode()) % len(SCALES)
    assert [*WEIGHED] == ["tpot_mean_ms", "output_tokens_per_s", "ttft_mean_ms"]
    step = list(SCALES.values())[seen].step
    assert line.slopes[:, seen] * step == pytest.approx([0.2, 0.0, -2.0])
    assert np.count_nonzero(line.slopes) == 2
    written = traffic_fit.refitted_files(replay=straight)
    paths = sorted(written, key=lambda path: path.suffix, reverse=True)
    stated, left_out = (written[path] for path in paths)
    constants = yaml.safe_load(stated)
    apart = json.loads(left_out)
    rows = {engine: errors["rows"] for engine, errors in constants["errors"].items()}
    assert rows == {"tpot": 213, "vllm": 185, "trtllm": 21}
    rows = {engine: errors["rows"] for engine, errors in constants["ttft_errors"].items()}
    assert rows == {"all": 364, "vllm": 223, "trtllm": 65, "sglang": 76}
    assert constants["errors"]["tpot"]["log_rms"] == pytest.approx(math.log(1.02), rel=0.1)
    shipped = data_folder("hardware") / "fitted" / "requests.yaml"
    assert constants.keys() == yaml.safe_load(shipped.read_text()).keys()
    assert apart.keys() == folds().keys()
    assert apart[DEEPSEEK].keys() == {"common", *constants["engines"]}
    assert "sglang.cdna3" not in apart["SGLang, other sources"], "all its rows are left out"
    # near TRUTH, as far as engines may leave what all runs say
    for engine, of in constants["engines"].items():
        for name, scale in SCALES.items():
            fitted = max(of[name], 1e-9)
            off = scale.between(getattr(TRUTH, name), fitted)
            assert abs(off) < 0.6 * scale.step, (engine, name)


def test_engines_that_are_not_named_keep_their_constants() -> None:
    before = {"common": TRUTH, "sglang": TRUTH, "vllm": TRUTH}
    costs = dict.fromkeys(("common", "sglang", "sglang.hopper", "vllm"), EngineRequests())
    expected = costs | {"common": TRUTH, "vllm": TRUTH}
    assert traffic_fit.kept(before, costs, ["sglang"]) == expected
    assert traffic_fit.kept(before, costs, []) == costs


def judged(clients: int = 8, tpot: float = 1.0, measured_ms: float = 10.0, **changes: Any) -> SimpleNamespace:
    """A run of one server with its predicted over its measured TPOT.

    - changes: other ratios, the error of the prediction, and columns of the run.
    """
    ratios = {"tpot_mean_ms": tpot} | changes.pop("ratios", {})
    columns = dict.fromkeys((*SERVER, "target", "engine_version", "draft"), "")
    columns |= {"steps": 0, "output_tokens": 1000, "input_tokens": 8000, "study": "a", "engine": "vllm"}
    log_error = changes.pop("log_error", 0.1)
    run = SimpleNamespace(
        **columns | {"concurrency": clients, "measured": lambda name: measured_ms} | changes
    )
    return SimpleNamespace(run=run, ratios=ratios, log_error=log_error)


def test_the_growth_of_an_error_is_relative_to_the_run_with_the_fewest_clients() -> None:
    """From 8 clients on, errors of a tenth more and a fifth less. Another draft is another series."""
    series = [judged(64, 0.88), judged(8, 1.1), judged(16, 1.21)]
    alone = judged(32, 5.0, draft="mtp")
    assert traffic_figures._growth([*series, alone]) == pytest.approx((0.1 + 0.2) / 2)
    assert traffic_figures._growth([series[0], alone]) is None
    assert traffic_figures._growth([judged(8, 1.0), judged(8, 1.5)]) is None, "as many clients"


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, (1, 1)),
        ({"tpot": 0.7}, (1, 1)),
        ({"tpot": 1.3}, (0, 1)),
        ({"steps": 0}, (0, 0)),
        ({"clients": 16}, (0, 0)),
        ({"output_tokens": 3000}, (0, 0)),
        ({"output_tokens": 1200}, (1, 1)),
    ],
)
def test_a_verdict_needs_a_run_without_a_draft_at_the_same_load(changes: dict[str, Any], counted) -> None:
    """A measured speedup of 10 / 8, which a prediction of a TPOT of 1.3 times the measured one denies."""
    drafting = judged(**{"measured_ms": 8.0, "steps": 3} | changes)
    assert traffic_figures._sides([drafting], [judged(), drafting]) == counted


def test_the_interval_of_a_ttft_is_no_narrower_than_the_errors_of_other_studies() -> None:
    """Errors of 25 % are outside an interval of 1.645 times 10 %, and inside one of 1.645 times 20 %."""
    off = {"ttft_mean_ms": 1.25, "output_tokens_per_s": 0.9}
    runs = [judged(tpot=1.25, ratios=off), judged()]
    inside = traffic_figures._inside(runs, {("vllm", "a"): 0.2})
    assert inside == {"tpot_mean_ms": 0.5, "output_tokens_per_s": 1.0, "ttft_mean_ms": 1.0}
    others = traffic_figures._inside(runs, {("vllm", "b"): 0.2})
    assert others["ttft_mean_ms"] == 0.0
    assert traffic_figures._inside([judged()], {})["ttft_mean_ms"] is None
