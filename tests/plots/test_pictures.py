"""The pictures of README and docs are fresh, each has its command, and each how-to has one."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from perfmodel import plots
from perfmodel.answers.query import resolve
from tests.plots.asked import ASK, ROOT
from tests.scripts import of_docs

PICTURE = of_docs("picture")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def fresh(one: str, two: str, within: float = 0.5) -> bool:
    """Are two .svg files alike to half a point? The last digits of a coordinate differ between processors."""
    made = re.compile(r"Matplotlib v[\d.]+")
    if made.search(one)[0] != made.search(two)[0]:  # type: ignore[index]
        pytest.skip("the picture was drawn by another matplotlib: `make docs` redraws it")
    bare = [re.sub(r'(id|href|url)="[^"]*"|url\([^)]*\)', "", NUMBER.sub("", text)) for text in (one, two)]
    numbers = [np.array([float(x) for x in NUMBER.findall(text)]) for text in (one, two)]
    return (
        bare[0] == bare[1]
        and numbers[0].size == numbers[1].size
        and bool(np.all(np.abs(numbers[0] - numbers[1]) < within))
    )


@pytest.mark.parametrize("name", PICTURE.PICTURES)
def test_pictures_are_fresh(name: str, tmp_path: Path) -> None:
    made, kept = PICTURE.drawn(name, tmp_path), ROOT / "docs" / "img" / f"{name}.svg"
    assert fresh(made.read_text(encoding="utf-8"), kept.read_text(encoding="utf-8")), (
        f"{name}: run `make docs` and commit"
    )


def test_a_stale_picture_would_be_noticed(tmp_path: Path) -> None:
    one, two = (
        plots.save(plots.surface(resolve(replace(ASK, alpha=alpha)), points=9), tmp_path / f"{alpha}.svg")
        for alpha in (0.81, 0.83)
    )
    assert not fresh(one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8"))


def test_every_picture_of_the_docs_has_its_command() -> None:
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            shown.add((page.parent / link).resolve().relative_to(ROOT).as_posix())
    by_hand = "docs/img/iteration.svg"
    assert shown == {by_hand, *(f"docs/img/{name}.svg" for name in PICTURE.PICTURES)}
    assert {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs" / "img").iterdir()} == shown


def test_every_how_to_has_a_picture() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    for entry in next(part["How to"] for part in nav if "How to" in part):
        (name,) = entry.values()
        assert "](img/" in (ROOT / "docs" / name).read_text(encoding="utf-8"), name
