"""Pictures: they show the engine's numbers, nothing is clipped, and equal numbers give equal bytes."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from perfmodel import plots
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.plots.breakdown import seconds_by_part
from perfmodel.plots.passes import stage_passes
from perfmodel.speculation import Workload, capacity, context_lengths, predict
from perfmodel.validate.accuracy.compare import compare
from tests.plots.figures import ASK, laid_out, legend_of, swept, written

LONG = replace(
    ASK,
    model="qwen3-235b-a22b",
    hardware="h200-sxm-141gb",
    draft_kv="pqcache:1024,subvectors=2,bits=6,iterations=10",
    calibration="ideal",
)
SCENARIO = resolve(ASK)
CHOICE = AdviseQuery(
    "llama-3.1-8b",
    "a100",
    32768,
    batch=(1, 8, 64),
    tp=(1, 8),
    rate={"self@streamingllm:512": "0.8"},
    any_draft=True,
    max_tpot_ms=20,
)
POINTS = [(64, 2048), (64, 8192), (64, 32768)]
UNDER_LOAD = AdviseQuery(
    "llama-3.1-8b",
    "a100",
    request_rate=1,
    input_len="1k",
    output_len=100,
    draft=("eagle",),
    rate={"eagle": "0.7"},
)


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "roofline": lambda: plots.roofline(SCENARIO, 64, 32000, 2),
    "surface": lambda: plots.surface(
        SCENARIO, gamma=2, points=33, measured=[(64, 32000, 1.28), (32, 100_000, 1.64)]
    ),
    "surface-best": lambda: plots.surface(SCENARIO, points=33),
    "surface-long-names": lambda: plots.surface(resolve(LONG), gamma=3, points=17),
    "ratios": lambda: plots.ratios(SCENARIO, [1, 16, 64, 256], (1024, 131072), 2),
    "ratios-batch": lambda: plots.ratios(SCENARIO, [2048, 32768], (1, 256), 2, over="batch", ideal=False),
    "breakdown": lambda: plots.breakdown(SCENARIO, POINTS, 2),
    "breakdown-one": lambda: plots.breakdown(SCENARIO, POINTS[:1], 2),
    "breakdown-both": lambda: plots.breakdown(SCENARIO, [(1, 2048), (256, 131072), (16, 8192)], 3),
    "curves": lambda: plots.curves(swept(context="2k..128kx2"), measured=[(8192, 1.03)]),
    "curves-gamma": lambda: plots.curves(swept(context="2k,8k,32k", gamma="1..16"), over="gamma"),
    "curves-devices": lambda: plots.curves(
        swept(hardware="a100,h100", context="8k,64k", batch="1..256x2"), "tpot_s", "batch"
    ),
    "pareto": lambda: plots.pareto(advise(CHOICE)),
    "residuals": lambda: plots.residuals(compare(["magicdec", "speculation_other"]), note="a note"),
}


def within(whole: Any, box: Any) -> bool:
    low_corner = whole.contains(box.x0, box.y0)
    high_corner = whole.contains(box.x1, box.y1)
    return bool(low_corner and high_corner)


def texts(figure: Figure) -> Iterator[tuple[str, Any]]:
    """Every visible text of a drawn figure and where it is."""
    for text in figure.findobj(matplotlib.text.Text):
        if isinstance(text, matplotlib.text.Text) and text.get_visible() and written(text):
            yield written(text), text.get_window_extent()


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_is_clipped_all_is_labelled_and_no_words_overlap(name: str) -> None:
    """Ticks beyond the limits of an axis are texts too, which are not drawn."""
    figure = laid_out(DRAWINGS[name]())
    whole = figure.bbox.padded(1.0)
    outside = [text for text, box in texts(figure) if not within(whole, box)]
    assert not [text for text in outside if not re.fullmatch(r"[\d.,k−%×-]*", text)]
    assert "calibration" in figure.get_supxlabel()
    (title,) = (box for text, box in texts(figure) if text == figure.get_suptitle())
    for axes in figure.axes:
        assert axes.get_xlabel() or axes.get_ylabel()
        if (legend := axes.get_legend()) is not None:
            box = legend.get_window_extent()
            assert not box.overlaps(title)
            assert box.y0 >= axes.get_window_extent().y1 - 1
            assert box.x1 <= figure.bbox.x1 + 1
        low, high = axes.get_xlim()
        shown = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        ticks = [tick.label1.get_window_extent() for tick in shown]
        for left, right in itertools.pairwise(ticks):
            assert left.x1 <= right.x0 + 1


def test_the_break_even_line_is_where_the_engine_breaks_even() -> None:
    figure = plots.surface(SCENARIO, gamma=2, points=129)
    contours = figure.axes[0].collections
    line = next(each for each in contours if list(getattr(each, "levels", [])) == [1.0])
    corners = np.concatenate([path.vertices for path in line.get_paths()])
    for batch in (64.0, 128.0):
        distances = np.abs(np.log(corners[:, 1] / batch))
        drawn_context = corners[distances.argmin(), 0]
        break_even = context_lengths(SCENARIO, batch, 2).break_even_context
        assert drawn_context == pytest.approx(break_even, rel=0.05)


def test_ratios_are_the_engine_s() -> None:
    figure = plots.ratios(SCENARIO, [16, 64], (1024, 131072), 2, ideal=False, points=9)
    contexts = np.geomspace(1024, 131072, 9)
    p = predict(SCENARIO, Workload.of([[16.0], [64.0]], contexts, 2))
    for axes, ratio in zip(figure.axes, (p.draft_to_target, p.verify_to_target), strict=True):
        data = [line.get_ydata() for line in axes.lines]
        curves = [values for values in data if len(values) == 9]
        np.testing.assert_allclose(curves, ratio)


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


H100 = replace(ASK, hardware="h100-sxm-80gb", tp=1, batch=16, context=32768, gamma=3, draft_kv="snapkv:2048")
MOE = replace(
    H100, model="qwen3-30b-a3b", hardware="mi300x", batch=1, context=1024, gamma=1, draft_kv="quest:1024"
)


@pytest.mark.parametrize(
    ("query", "passes", "roofs"),
    [
        (ASK, 3, ["312 TFLOP/s (bf16)"]),
        (replace(H100, draft_weights="fp8"), 3, ["1,979 TFLOP/s (fp8)", "989 TFLOP/s (bf16)"]),
        (
            replace(H100, weights="fp8", draft_weights="int8"),
            3,
            ["1,979 TFLOP/s (fp8, int8)", "989 TFLOP/s (bf16)"],
        ),
        (replace(H100, draft="ngram", draft_kv="full"), 2, ["989 TFLOP/s (bf16)"]),
        (replace(H100, gamma=0), 1, ["989 TFLOP/s (bf16)"]),
        (MOE, 3, ["1,307 TFLOP/s (bf16)"]),
    ],
)
def test_points_of_passes_that_are_made_lie_under_named_roofs(
    query: Query, passes: int, roofs: list[str]
) -> None:
    scenario = resolve(query)
    drawn = plots.roofline(scenario, query.batch, query.context, query.gamma or 0)
    figure = laid_out(drawn)
    axes = figure.axes[-1]
    gpu = scenario.machine.gpu
    lines = [line for panel in figure.axes for line in panel.lines]
    points = [line for line in lines if len(line.get_xdata()) == 1]
    assert len(figure.axes) == 1
    assert len(points) == 3 * passes
    assert len(lines) - len(points) == len(roofs)
    roof_lines = [line for line in lines if line not in points]
    top = max(float(line.get_ydata().max()) for line in roof_lines)
    for line in points:
        intensity = float(line.get_xdata()[0])
        roof = min(intensity * gpu.memory_bandwidth_bytes_per_s / 1e12, top)
        assert 0 < float(line.get_ydata()[0]) < roof
    names = [written(text) for text in axes.texts[:-1]]
    assert [name.partition("\n")[0] for name in names] == roofs
    assert all("ridge: " in name for name in names)
    assert axes.texts[-1].get_text().endswith("GB/s")
    boxes = [text.get_window_extent() for text in axes.texts]
    pairs = itertools.combinations(boxes, 2)
    assert not any(one.overlaps(two) for one, two in pairs)
    assert all(within(figure.bbox, box) for box in boxes)
    bandwidth = boxes[-1]
    assert axes.bbox.contains(bandwidth.x0, bandwidth.y0)


def test_measured_dots_at_an_edge_are_whole() -> None:
    measured = [(256, 8000, 1.01), (128, 8000, 0.93), (512, 8000, 2)]
    surface = plots.surface(SCENARIO, gamma=2, points=17, measured=measured)
    axes = laid_out(surface).axes[0]
    (dots,) = (line for line in axes.lines if str(line.get_label()).startswith("measured"))
    assert not dots.get_clip_on()
    assert [text.get_text() for text in axes.texts] == ["0.93", "1.01"]


def test_what_does_not_fit_is_hatched_and_named() -> None:
    axes = plots.surface(SCENARIO, gamma=2, points=17).axes[0]
    assert "does not fit in memory" in legend_of(axes)
    (hatched,) = [c for c in axes.collections if any(getattr(c, "hatches", ()))]
    (patch,) = [p for p in hatched.get_paths() if p.vertices.size]
    for batch, context in ((1.2, 1100.0), (250.0, 130000.0)):
        fits = bool(capacity.memory_of(SCENARIO, batch, context, 2.0, 0.92).fits)
        assert patch.contains_point((context, batch)) is not fits


def test_the_fronts_are_those_of_advise() -> None:
    answer = advise(CHOICE)
    figure = plots.pareto(answer)
    baseline, speculating, chosen, bound = figure.axes[0].lines
    fronts = ((baseline, answer.pareto.baseline), (speculating, answer.pareto.speculating))
    for line, front in fronts:
        assert len(front) > 1
        tpot_ms = [1e3 * point.tpot_s for point in front]
        throughput = [point.throughput_tokens_per_s_per_device for point in front]
        np.testing.assert_allclose(line.get_xdata(), tpot_ms)
        np.testing.assert_allclose(line.get_ydata(), throughput)
    assert answer.chosen is not None
    np.testing.assert_allclose(chosen.get_xdata(), [1e3 * answer.chosen.tpot_s])
    assert list(bound.get_xdata()) == [20, 20]


@pytest.mark.parametrize(
    "change", [{"rate": {"self@streamingllm:512": "0.7"}}, {"kv_dtype": "fp8"}, {"batch": (1, 8)}], ids=str
)
def test_the_caption_of_fronts_says_what_was_asked(change: dict[str, Any]) -> None:
    caption = plots.pareto(advise(CHOICE)).get_supxlabel()
    assert plots.pareto(advise(replace(CHOICE, **change))).get_supxlabel() != caption


def test_an_answer_without_fronts_draws_none() -> None:
    with pytest.raises(InputError, match="without a load"):
        plots.pareto(advise(UNDER_LOAD))


def test_equal_numbers_give_equal_bytes(tmp_path: Path) -> None:
    named = replace(SCENARIO, target=SCENARIO.target.replace(name="\u4e2d"))  # in no font
    for suffix in (".svg", ".png"):
        surface = plots.surface(named, points=17)
        again = plots.surface(named, points=17)
        one = plots.save(surface, tmp_path / f"1{suffix}").read_bytes()
        two = plots.save(again, tmp_path / f"2{suffix}").read_bytes()
        assert one == two
        assert b"2026" not in one
    assert not list(tmp_path.glob("*.pdf"))
