"""Rooflines: a point for each pass that is made, under roofs that are named."""

import itertools
from dataclasses import replace

import pytest

from perfmodel import plots
from perfmodel.answers.question import Query, resolve
from tests.plots.figures import ASK, laid_out, title_of, within, words_around, written

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
    assert "ridge at " in words_around(figure)
    assert axes.texts[-1].get_text().endswith("GB/s")
    boxes = [text.get_window_extent() for text in axes.texts]
    pairs = itertools.combinations(boxes, 2)
    assert not any(one.overlaps(two) for one, two in pairs)
    assert all(within(figure.bbox, box) for box in boxes)
    paths = [line.get_path().transformed(line.get_transform()) for line in roof_lines]
    assert not any(path.intersects_bbox(box, filled=False) for path in paths for box in boxes[:-1])
    bandwidth = boxes[-1]
    assert axes.bbox.contains(bandwidth.x0, bandwidth.y0)


def test_the_title_says_what_limits_each_pass() -> None:
    scenario = resolve(H100)
    limits = {"param_load": "weights limits", "kv_load": "the KV cache limits", "flops": "ompute limits"}
    title = title_of(plots.roofline(scenario, 16, 32768, 3))
    step = scenario.target_step(16.0, 32768.0)
    assert limits[str(step.limiter)] in title
    assert "the baseline step" in title
    alone = title_of(plots.roofline(scenario, 1, 1024, 0))
    assert alone == "Reading weights limits the baseline step"


def test_points_of_several_passes_at_one_place_are_all_visible() -> None:
    axes = plots.roofline(resolve(H100), 16, 32768, 3).axes[0]
    looks = {
        (line.get_markersize(), line.get_fillstyle()) for line in axes.lines if len(line.get_xdata()) == 1
    }
    assert len(looks) == 3
