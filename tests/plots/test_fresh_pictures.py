"""The pictures of README and docs are those that the present model draws."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import resolve
from perfmodel.operations import Array
from tests.plots.figures import ASK
from tests.scripts import ROOT, of_docs

PICTURE = of_docs("picture")


NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def without_numbers(svg: str) -> str:
    """Nor the names that matplotlib draws anew."""
    return re.sub(r'(id|href|url)="[^"]*"|url\([^)]*\)', "", NUMBER.sub("#", svg))


def numbers(svg: str) -> Array:
    return np.array([float(number) for number in NUMBER.findall(svg)])


def fresh(one: str, two: str, points: float = 0.5) -> bool:
    """Are two .svg files alike to half a point? The last digits of a coordinate differ between processors."""
    version = re.compile(r"Matplotlib v[\d.]+")
    if version.search(one)[0] != version.search(two)[0]:  # type: ignore[index]
        pytest.skip("the picture was drawn by another matplotlib: `make docs` redraws it")
    if without_numbers(one) != without_numbers(two):
        return False
    off = numbers(one) - numbers(two)
    return bool(np.all(np.abs(off) < points))


@pytest.mark.slow
@pytest.mark.parametrize("theme", PICTURE.SUFFIXES)
@pytest.mark.parametrize("name", PICTURE.PICTURES)
def test_pictures_are_fresh(name: str, theme: str, tmp_path: Path) -> None:
    drawn = PICTURE.drawn(name, tmp_path, theme)
    kept = ROOT / "docs" / "img" / drawn.name
    one, two = (path.read_text(encoding="utf-8") for path in (drawn, kept))
    assert fresh(one, two), f"{drawn.name}: run `make docs` and commit"


@pytest.mark.parametrize("name", PICTURE.BY_HAND)
def test_the_dark_version_of_a_picture_by_hand_is_fresh(name: str) -> None:
    light, dark = ((PICTURE.IMAGES / f"{name}{end}.svg").read_text("utf-8") for end in ("", "-dark"))
    assert PICTURE.darkened(light) == dark, f"{name}: run `make docs` and commit"


def test_a_stale_picture_would_be_noticed(tmp_path: Path) -> None:
    def drawn(alpha: float) -> str:
        resolved = resolve(replace(ASK, alpha=alpha))
        figure = plots.surface(resolved, points=9)
        return plots.save(figure, tmp_path / f"{alpha}.svg").read_text(encoding="utf-8")

    assert not fresh(drawn(0.81), drawn(0.83))
