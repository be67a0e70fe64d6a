"""Surfaces over batch and context: the break-even line, measured dots and what does not fit in memory."""

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import resolve
from perfmodel.speculation import capacity, context_lengths
from tests.plots.figures import ASK, laid_out, legend_of, within, words_around

SCENARIO = resolve(ASK)


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


def test_measured_dots_at_an_edge_are_whole() -> None:
    measured = [(256, 8000, 1.01), (128, 8000, 0.93), (512, 8000, 2)]
    surface = plots.surface(SCENARIO, gamma=2, points=17, measured=measured)
    axes = laid_out(surface).axes[0]
    (dots,) = (line for line in axes.lines if str(line.get_label()).startswith("measured"))
    assert not dots.get_clip_on()
    assert [text.get_text() for text in axes.texts] == ["0.93", "1.01"]


def test_the_number_of_a_measured_dot_stays_in_the_axes() -> None:
    surface = plots.surface(SCENARIO, gamma=2, points=17, measured=[(32, 100_000, 1.64)])
    axes = laid_out(surface).axes[0]
    (number,) = axes.texts
    assert within(axes.bbox, number.get_window_extent())


def test_what_does_not_fit_is_hatched_and_named() -> None:
    axes = plots.surface(SCENARIO, gamma=2, points=17).axes[0]
    assert "does not fit in memory" in legend_of(axes)
    (hatched,) = [c for c in axes.collections if any(getattr(c, "hatches", ()))]
    (patch,) = [p for p in hatched.get_paths() if p.vertices.size]
    for batch, context in ((1.2, 1100.0), (250.0, 130000.0)):
        fits = bool(capacity.memory_of(SCENARIO, batch, context, 2.0, 0.92).fits)
        assert patch.contains_point((context, batch)) is not fits


@pytest.mark.parametrize(
    ("batch", "context", "drawn"),
    [(256, 131072, True), (1, 1024, True), (128, 1023, False), (128, 131073, False), (257, 8000, False)],
)
def test_a_measured_dot_outside_of_one_axis_is_left_out(batch: int, context: int, drawn: bool) -> None:
    surface = plots.surface(SCENARIO, gamma=2, points=9, measured=[(batch, context, 1.5)])
    dots = [line for line in surface.axes[0].lines if str(line.get_label()).startswith("measured")]
    assert bool(dots) is drawn


@pytest.mark.parametrize(("longest", "drawn"), [(131072, True), (2048, False)])
def test_the_caption_explains_the_inflection_context_where_it_is_drawn(longest: int, drawn: bool) -> None:
    surface = plots.surface(SCENARIO, gamma=2, points=9, context=(1024, longest))
    assert any(text.startswith("inflection context") for text in legend_of(surface.axes[0])) == drawn
    explained = "above the inflection context, a larger batch does not reduce the speedup"
    assert (explained in words_around(surface)) == drawn
