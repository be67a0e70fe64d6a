"""The colours of a surface: one for each speedup in all pictures, on a scale of the points that fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from perfmodel import plots
from perfmodel.answers.question import resolve
from perfmodel.errors import InputError
from perfmodel.plots.surfaces import LEVELS, MAX_TICKS
from perfmodel.speculation import capacity, speedups
from tests.plots.figures import ASK, legend_of

SCENARIO = resolve(ASK)


def filled(figure: Any) -> Any:
    """The coloured bands of a surface."""
    return figure.axes[0].collections[0]


def colour_of(figure: Any, speedup: float) -> str:
    """The colour of the band that holds a speedup."""
    bands = filled(figure)
    at = int(np.searchsorted(bands.levels, speedup, "right")) - 1
    return to_hex(bands.get_facecolor()[at])


@pytest.mark.parametrize("speedup", [0.95, 1.25, 1.2, 1.0])
def test_a_dot_has_the_colour_of_the_band_of_its_value(speedup: float) -> None:
    """A value on the limit of two bands belongs to the upper one."""
    figure = plots.surface(SCENARIO, gamma=2, points=17, measured=[(16, 8000, speedup)])
    bands = filled(figure)
    assert bands.levels[0] <= speedup < bands.levels[-1]
    dot = figure.axes[0].lines[-1]
    assert to_hex(dot.get_color()) == colour_of(figure, speedup)


def test_pictures_of_other_spans_give_a_speedup_the_same_colour() -> None:
    wide = plots.surface(SCENARIO, gamma=2, points=17)
    narrow = plots.surface(SCENARIO, gamma=2, points=17, batch=(8, 32), context=(8192, 32768))
    assert list(filled(wide).levels) != list(filled(narrow).levels)
    assert colour_of(wide, 1.05) == colour_of(narrow, 1.05)


def test_what_does_not_fit_sets_no_scale() -> None:
    figure = plots.surface(SCENARIO, gamma=2, points=17)
    batches = np.geomspace(1.0, 256.0, 17)[:, None]
    contexts = np.geomspace(1024.0, 131072.0, 17)
    values = speedups(SCENARIO, batches, contexts, np.array([2]))[..., 0]
    fits = np.asarray(capacity.memory_of(SCENARIO, batches, contexts, 2.0).fits)
    top = min(level for level in LEVELS if level >= values[fits].max())
    assert top < values.max()
    assert filled(figure).levels[-1] == top
    assert filled(figure).extend == "neither"


def test_the_fill_reaches_to_what_does_not_fit() -> None:
    """A point is not without a colour because the next one, which does not fit, is beyond the scale."""
    scenario = resolve(replace(ASK, model="llama-2-7b", tp=1, alpha=0.95))
    figure = plots.surface(scenario, gamma=2, points=3)
    batches = np.geomspace(1.0, 256.0, 3)
    contexts = np.geomspace(1024.0, 131072.0, 3)
    values = speedups(scenario, batches[:, None], contexts, np.array([2]))[..., 0]
    fits = np.asarray(capacity.memory_of(scenario, batches[:, None], contexts, 2.0).fits)
    beyond = values > filled(figure).levels[-1]
    last = np.argwhere(fits[:, :-1] & ~fits[:, 1:] & beyond[:, 1:])
    assert last.size
    paths = filled(figure).get_paths()
    for row, column in last:
        between = contexts[column] + 0.49 * (contexts[column + 1] - contexts[column])
        assert any(path.contains_point((between, batches[row] * 1.001)) for path in paths)


@pytest.mark.parametrize(("alpha", "extended"), [(0.0, "min"), (1.0, "max")])
def test_a_value_beyond_all_levels_has_a_band_of_its_own(alpha: float, extended: str) -> None:
    question = replace(ASK, draft="ngram", draft_kv=None, alpha=alpha, calibration="ideal", tp=1)
    figure = plots.surface(question, gamma=255, points=5, batch=(1, 4096), context=(1024, 2048))
    bands = filled(figure)
    assert bands.extend == extended
    assert len(bands.get_facecolor()) == len(bands.levels)


def test_the_scale_has_few_ticks_and_one_at_break_even() -> None:
    question = replace(ASK, draft="ngram", draft_kv=None, alpha=0.6, tp=1)
    figure = plots.surface(question, gamma=15, points=5, batch=(1, 4096), context=(1024, 2048))
    levels = list(filled(figure).levels)
    assert len(levels) > MAX_TICKS
    assert levels.index(1.0) % 2 == 1, "every second level from the first one would leave it out"
    ticks = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert "1×" in ticks
    assert len(ticks) <= MAX_TICKS


def test_without_speedups_there_is_still_a_scale() -> None:
    baseline = plots.surface(SCENARIO, gamma=0, points=5)
    assert list(filled(baseline).levels) == [1.0, 1.1]


def test_only_a_picture_of_the_best_length_says_where_not_to_speculate() -> None:
    assert "do not speculate" in legend_of(plots.surface(SCENARIO, points=17).axes[0])
    assert "do not speculate" not in legend_of(plots.surface(SCENARIO, gamma=2, points=17).axes[0])


def test_an_inflection_context_outside_the_picture_is_not_drawn() -> None:
    def has_line(context: tuple[float, float], **batches: tuple[float, float]) -> bool:
        surface = plots.surface(SCENARIO, gamma=2, points=9, context=context, **batches)
        return any(words.startswith("inflection context") for words in legend_of(surface.axes[0]))

    assert has_line((1024, 131072))
    assert not has_line((1024, 131072), batch=(1024, 4096)), "nothing on the line fits in memory"
    assert not has_line((65536, 131072))
    assert not has_line((128, 256))


def test_on_a_device_of_unknown_memory_everything_fits() -> None:
    machine = SCENARIO.machine
    unknown = replace(SCENARIO, machine=replace(machine, gpu=machine.gpu.replace(memory=None)))
    assert "does not fit in memory" not in legend_of(plots.surface(unknown, gamma=2, points=9).axes[0])


def test_a_length_that_the_draft_does_not_have_is_refused() -> None:
    question = replace(ASK, draft="medusa:heads=3", draft_kv=None)
    with pytest.raises(InputError, match="at most 3 with medusa"):
        plots.surface(question, gamma=4, points=5)
