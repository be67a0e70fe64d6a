"""The pictures of the pages: legible on a phone, in a light and in a dark version."""

import re
import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from perfmodel import cli, plots
from perfmodel.answers.question import resolve
from perfmodel.errors import InputError
from perfmodel.plots.palette import PALETTES, Palette
from tests.plots.figures import ASK
from tests.scripts import ROOT, of_docs

PICTURES = sorted((ROOT / "docs" / "img").glob("*.svg"))
LIGHT = [path for path in PICTURES if not path.stem.endswith("-dark")]
PHONE_PX = 343
"""Width of a page on a phone."""
SMALLEST_PX = 9
POINT_PX = 96 / 72
LARGEST_PX = 20
"""Size of a letter that is not too large on a wide page."""


def sizes(svg: str) -> list[float]:
    """The sizes of all words in the units of the picture: of outlines, and of text."""
    outlines = re.findall(r'transform="[^"]*scale\((0\.\d+) -0\.\d+\)"', svg)
    return [100 * float(scale) for scale in outlines] + [
        float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)
    ]


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_every_word_is_legible_on_a_phone_and_not_huge_on_a_wide_page(path: Path) -> None:
    svg = path.read_text(encoding="utf-8")
    root = ET.fromstring(svg)
    _, _, width, _ = map(float, root.attrib["viewBox"].split())
    written = root.attrib.get("width", "")
    full = float(written.removesuffix("pt")) * (POINT_PX if written.endswith("pt") else 1.0)
    found = sizes(svg)
    assert found
    assert min(found) * PHONE_PX / width >= SMALLEST_PX
    assert max(found) * full / width <= LARGEST_PX
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_every_picture_has_a_dark_twin_with_light_words(path: Path) -> None:
    for theme, name in (("light", path), ("dark", path.with_stem(f"{path.stem}-dark"))):
        svg = name.read_text(encoding="utf-8")
        assert PALETTES[theme].page in svg
        assert PALETTES[theme].ink in svg
        other = PALETTES["light" if theme == "dark" else "dark"]
        assert other.ink not in svg


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_words_and_lines_contrast_with_the_page(palette: Palette) -> None:
    for words, page in product((palette.ink, palette.muted), (palette.page, palette.pale)):
        assert contrast(words, page) >= 4.5
    for line in (*palette.bright, *palette.sequence):
        assert contrast(line, palette.page) >= 3.0


def test_bars_of_a_stored_picture_stand_out_on_a_dark_page() -> None:
    """The site inverts the pictures of notebooks and turns their hues back."""
    css = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    (share,) = map(float, re.findall(r"\.drawn \{ filter: invert\((0\.\d+)\) hue-rotate\(180deg\)", css))

    def filtered(colour: str) -> str:
        inverted = np.array([share + (1 - 2 * share) * part for part in to_rgb(colour)])
        turned = 2 * inverted @ (0.213, 0.715, 0.072) - inverted  # the gray of CSS stays
        return to_hex(np.clip(turned, 0, 1))

    light = PALETTES["light"]
    for colour in (*light.parts.values(), *light.stages.values()):
        assert contrast(filtered(colour), filtered(light.page)) >= 1.7


def test_a_dark_picture_stays_dark_when_it_is_saved(tmp_path: Path) -> None:
    with plots.style("dark"):
        figure = plots.surface(resolve(ASK), gamma=2, points=5)
    svg = plots.save(figure, tmp_path / "x.svg").read_text(encoding="utf-8")
    assert PALETTES["dark"].ink in svg
    assert PALETTES["light"].ink not in svg


def test_an_unknown_theme_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(InputError, match="style: no theme named 'blue'; known: dark, light"),
        plots.style("blue"),
    ):
        pass
    words = [
        "-m",
        "llama-3.1-8b",
        "--gpu",
        "h100",
        "-b",
        "1,4",
        "-c",
        "1k,8k",
        "--alpha",
        "0.8",
        "--theme",
        "blue",
    ]
    assert cli.run(["plot", "surface", *words, "-o", str(tmp_path / "x.svg")]) == 2
    assert capsys.readouterr().err == "error: --theme: no theme named 'blue'; known: dark, light\n"


def test_a_notebook_shows_a_sharp_picture_at_the_width_of_a_page_with_its_title() -> None:
    figure = plots.surface(resolve(ASK), gamma=2, points=5)
    data, size = figure._repr_mimebundle_()  # type: ignore[attr-defined]
    assert data["text/plain"].startswith("A sparse self-draft breaks even")
    width = int.from_bytes(data["image/png"][16:20], "big")
    assert size["image/png"]["width"] == 451
    assert width == pytest.approx(2 * 451, abs=2)


def test_readme_and_site_show_the_dark_twin_on_a_dark_page() -> None:
    pytest.importorskip("mkdocs")
    from mkdocs.structure.files import File, Files

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'<img alt="[^"]+" src="(docs/img/[\w-]+)\.svg">', readme)
    dark = re.findall(
        r'<source media="\(prefers-color-scheme: dark\)" srcset="(docs/img/[\w-]+)\.svg">', readme
    )
    assert shown
    assert dark == [f"{name}-dark" for name in shown]
    assert all((ROOT / f"{name}.svg").exists() for name in (*shown, *dark))
    files = Files([File(f"img/{path.name}", str(path.parent), "site", False) for path in PICTURES])
    page = of_docs("hooks").on_page_markdown(
        "![Passes](img/roofline.svg)\n![No](img/none.svg)", None, None, files
    )
    both = "![Passes](img/roofline.svg#only-light)![Passes](img/roofline-dark.svg#only-dark)"
    assert page == f"{both}\n![No](img/none.svg)"
