"""Every picture: nothing is clipped, all is labelled, and equal numbers give equal bytes."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.figure import Figure

from perfmodel import plots
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.question import resolve
from perfmodel.validate.accuracy.compare import compare
from tests.plots.figures import ASK, CHOICE, LONG, laid_out, swept, within, written

SCENARIO = resolve(ASK)
POINTS = [(64, 2048), (64, 8192), (64, 32768)]
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
        assert axes.get_xlabel() or axes.get_ylabel() or axes.get_title(loc="left")
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


def test_equal_numbers_give_equal_bytes(tmp_path: Path) -> None:
    named = replace(SCENARIO, target=SCENARIO.target.replace(name="\u4e2d"))  # in no font
    for suffix in (".svg", ".png", ".pdf"):
        surface = plots.surface(named, points=17)
        again = plots.surface(named, points=17)
        one = plots.save(surface, tmp_path / f"1{suffix}").read_bytes()
        two = plots.save(again, tmp_path / f"2{suffix}").read_bytes()
        assert one == two
        assert b"2026" not in one
        assert b"CreationDate" not in one
