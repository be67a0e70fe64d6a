"""Bars of passes and lines of ratios: lengths, ticks and words are the engine's numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import Query, resolve
from perfmodel.plots.breakdown import seconds_by_part
from perfmodel.plots.passes import stage_passes
from perfmodel.plots.theme import tokens
from perfmodel.speculation import Workload, predict
from tests.plots.figures import ASK, LONG, legend_of, title_of, written

SCENARIO = resolve(ASK)


def lengths_of_bars(axes) -> dict[float, float]:
    """Row -> length of its bar, over all parts."""
    lengths: dict[float, float] = {}
    for part in axes.patches:
        row = round(part.get_y() + part.get_height() / 2, 6)
        lengths[row] = lengths.get(row, 0.0) + part.get_width()
    return lengths


def test_a_bar_is_as_long_as_its_pass_and_its_tick_is_the_lower_bound() -> None:
    left, _ = plots.breakdown(SCENARIO, [(64, 32000)], 2).axes
    steps = [
        SCENARIO.target_step(64.0, 32000.0),
        SCENARIO.draft_step(64.0, 32000.0),
        SCENARIO.target_step(64.0, 32000.0, 3.0),
    ]
    assert [*lengths_of_bars(left).values()] == pytest.approx([1e3 * float(s.predicted_s) for s in steps])
    ticks = [line.get_xdata()[0] for line in left.lines]
    assert ticks == pytest.approx([1e3 * float(s.lower_s) for s in steps])


def test_the_time_per_token_is_that_of_an_iteration_over_its_tokens() -> None:
    _, right = plots.breakdown(SCENARIO, [(64, 32000)], 2).axes
    p = predict(SCENARIO, Workload.of(64, 32000, 2), 2)
    baseline, speculating = lengths_of_bars(right).values()
    assert baseline == pytest.approx(1e3 * float(p.target_s))
    assert baseline / speculating == pytest.approx(float(p.speedup))
    assert f"{float(p.speedup):.2f}×" in [written(text) for text in right.texts]


def test_a_point_has_the_flops_of_its_operations_over_their_predicted_time() -> None:
    """The whole pass takes longer than its linear layers and its attention together: launches are its own."""
    axes = plots.roofline(SCENARIO, 64, 32000, 0).axes[0]
    linear, attention, whole = axes.lines[:3]
    ops = SCENARIO.target_ops(64.0, 32000.0)
    seconds = float(SCENARIO.target_step(64.0, 32000.0).predicted_s)
    flops = sum(float(op.cost.flops) for op in ops)
    assert whole.get_ydata()[0] == pytest.approx(flops / seconds / 1e12)
    for line, kind in ((linear, "linear"), (attention, "attention")):
        of_kind = [op for op in ops if op.kind == kind]
        alone_s = sum(float(SCENARIO.machine.op_predicted_s(op)) for op in of_kind)
        reached = sum(float(op.cost.flops) for op in of_kind) / alone_s / 1e12
        assert line.get_ydata()[0] == pytest.approx(reached)


@pytest.mark.parametrize(("devices", "named"), [(1, False), (8, True)])
def test_the_legend_names_the_parts_that_there_are(devices: int, named: bool) -> None:
    """One device has no all-reduce."""
    left, _ = plots.breakdown(resolve(replace(ASK, tp=devices)), [(4, 2048)], 2).axes
    assert ("all-reduce" in legend_of(left)) is named


def whole(axes) -> list[list[float]]:
    """The values of each coloured line, with those that do not fit in memory."""
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    points: dict[str, dict[float, float]] = {line.get_color(): {} for line in named}
    for line in axes.lines:
        if line.get_color() in points:
            points[line.get_color()] |= dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    return [[*values.values()] for values in points.values()]


def test_ratios_over_the_batch_have_a_line_for_each_context() -> None:
    left, right = plots.ratios(SCENARIO, [2048, 32768], (1, 256), 2, over="batch", ideal=False, points=5).axes
    p = predict(SCENARIO, Workload.of(np.geomspace(1, 256, 5), [[2048.0], [32768.0]], 2))
    for axes, ratio in ((left, p.draft_to_target), (right, p.verify_to_target)):
        np.testing.assert_allclose(whole(axes), ratio)
    assert legend_of(left) == ["context 2k", "context 32k", "thin: does not fit in memory"]
    assert right.get_xlabel() == "batch, sequences"


def test_one_baseline_step_has_a_line_unless_all_ratios_are_far_below() -> None:
    left, right = plots.ratios(SCENARIO, [256], (65536, 131072), 2, ideal=False, points=5).axes
    levels = [[list(line.get_ydata()) for line in axes.lines] for axes in (left, right)]
    assert left.get_ylim()[1] <= 0.7
    assert [1.0, 1.0] not in levels[0]
    assert [1.0, 1.0] in levels[1]


@pytest.mark.parametrize(
    ("ideal", "lines"), [(True, ["calibrated", "ideal roofline"]), (False, [])], ids=["with", "without"]
)
def test_the_ideal_roofline_is_dashed_and_named(ideal: bool, lines: list[str]) -> None:
    above, _ = plots.ratios(SCENARIO, [16], (1024, 2048), 2, ideal=ideal, points=3).axes
    assert legend_of(above) == ["batch 16", *lines]


def test_titles_of_costs_state_the_change_of_the_last_line() -> None:
    figure = plots.ratios(SCENARIO, [4, 8], (1024, 131072), 2, ideal=False, points=9)
    p = predict(SCENARIO, Workload.of([[4.0], [8.0]], np.geomspace(1024, 131072, 9), 2))
    draft, verify = (
        " % to ".join(f"{100 * value:.0f}" for value in ratio[-1, [0, -1]])
        for ratio in (p.draft_to_target, p.verify_to_target)
    )
    assert title_of(figure) == (
        f"At batch 8 and context 1k to 128k, a draft step falls from {draft} % "
        f"of a baseline step, a verification grows from {verify} %"
    )
    assert legend_of(figure.axes[0]) == ["batch 4", "batch 8"]
    for axes in figure.axes:
        markers = [line.get_marker() for line in axes.lines[:2]]
        assert len({*markers}) == 2, "lines differ by their markers too"


ONE = resolve(Query("llama-3.1-8b", "h100", 1, 1024, gamma=3, draft="eagle", alpha=0.7))


def test_a_line_of_ratios_is_thin_where_memory_ends_and_the_title_fits_in_memory() -> None:
    """`whatif` states the largest batch at each context: 6 at 64k, and fewer than 256 from 2k."""
    figure = plots.ratios(ONE, [1, 256], (1024, 65536), 3, ideal=False, points=7)
    assert title_of(figure).startswith("At batch 1 and context 1k to 64k, a draft step falls from ")
    for axes in figure.axes:
        ends = [
            (line.get_linewidth() < 1, line.get_xdata()[0], line.get_xdata()[-1]) for line in axes.lines[:3]
        ]
        assert ends == [(False, 1024, 65536), (False, 1024, 1024), (True, 1024, 65536)]
    assert legend_of(figure.axes[0])[-1] == "thin: does not fit in memory"


@pytest.mark.parametrize(
    ("batches", "begins"),
    [
        ([64, 256], "At batch 64 and context 1k to 4k, "),
        ([1000, 4000], "Nothing fits in memory. At batch 4000 and context 1k to 64k, "),
    ],
)
def test_if_no_line_fits_to_its_end_the_title_states_how_far_one_fits(
    batches: list[int], begins: str
) -> None:
    figure = plots.ratios(ONE, batches, (1024, 65536), 3, ideal=False, points=7)
    assert title_of(figure).startswith(begins)


def test_the_title_of_a_breakdown_states_the_speedup_of_each_point() -> None:
    speedups = [float(predict(SCENARIO, Workload.of(b, 32000, 2), 2).speedup) for b in (16, 64)]
    title = title_of(plots.breakdown(SCENARIO, [(16, 32000), (64, 32000)], 2))
    places = f"{speedups[0]:.2f}× at batch 16, {speedups[1]:.2f}× at batch 64"
    assert title == f"A sparse self-draft: predicted speedup {places}"
    many = plots.breakdown(SCENARIO, [(batch, 32000) for batch in (16, 32, 64)], 2)
    assert title_of(many) == f"A sparse self-draft: predicted speedup {places.replace(', ', ' to ')}"


def test_bars_differ_by_their_hatches_too() -> None:
    above, below = plots.breakdown(SCENARIO, [(16, 32000)], 2).axes
    for axes in (above, below):
        hatches = [patch.get_hatch() for patch in axes.get_legend().get_patches()]
        assert len({*hatches}) == len(hatches)


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999"), (1024, "1k"), (1536, "1.5k"), (100_000, "100,000"), (2**20, "1M"), (math.pi, "3.142")],
)
def test_a_count_has_a_suffix_where_one_decimal_is_exact(count: float, words: str) -> None:
    assert tokens(count) == words


def test_ratios_are_the_engine_s() -> None:
    figure = plots.ratios(SCENARIO, [16, 64], (1024, 131072), 2, ideal=False, points=9)
    contexts = np.geomspace(1024, 131072, 9)
    p = predict(SCENARIO, Workload.of([[16.0], [64.0]], contexts, 2))
    for axes, ratio in zip(figure.axes, (p.draft_to_target, p.verify_to_target), strict=True):
        np.testing.assert_allclose(whole(axes), ratio)


@pytest.mark.parametrize(
    "query", [ASK, replace(ASK, model="qwen3-30b-a3b", tp=1, draft_kv="quest:1024"), LONG]
)
def test_parts_of_a_pass_add_up_to_its_time(query: Query) -> None:
    scenario = resolve(query)
    target = scenario.target_step
    draft = scenario.draft_step
    verify = scenario.target_step(64.0, 32000.0, 3.0)
    steps = {"baseline": target(64.0, 32000.0), "draft": draft(64.0, 32000.0), "verify": verify}
    for stage, each in stage_passes(scenario, 64.0, 32000.0, 2).items():
        spent = seconds_by_part(each)
        assert sum(spent.values()) == pytest.approx(float(steps[stage].predicted_s))
        assert spent["fixed"] == pytest.approx(float(steps[stage].fixed_s), abs=1e-9)
        assert spent["allreduce"] == pytest.approx(float(steps[stage].comm_s))
        assert min(spent.values()) >= -1e-12
