"""The explorer on a phone and on a desk, light and dark: type, contrast, and controls."""

from pathlib import Path

import pytest

from perfmodel.explorer.exploration import Exploration
from perfmodel.explorer.page import page, payload
from tests.explorer.headless import Browser
from tests.explorer.small import written
from tests.scripts import of_docs

SMALLEST_TYPE = 12
"""CSS pixels."""
SMALLEST_TARGET = 32
"""CSS pixels, of the height of a control."""
CONTRAST = 4.5
"""WCAG 2.1, level AA, for text."""
COLOURS = """
const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgbaOf = (colour) => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data];
};
const linear = (value) => (value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (colour) => rgbaOf(colour).slice(0, 3)
  .reduce((sum, value, i) => sum + [0.2126, 0.7152, 0.0722][i] * linear(value), 0);
const contrast = (one, two) => {
  const [dark, light] = [luminance(one), luminance(two)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const ground = (node) => {
  const colour = getComputedStyle(node).backgroundColor;
  return rgbaOf(colour)[3] || !node.parentElement ? colour : ground(node.parentElement);
};
"""
TEXTS = """
const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const texts = [];
while (words.nextNode()) {
  const [text, node] = [words.currentNode.data.trim(), words.currentNode.parentElement];
  if (!text || !node.checkVisibility() || node.matches('option, noscript, script, .cell')) continue;
  const isDrawn = node instanceof SVGElement;
  const scale = isDrawn ? node.getScreenCTM().a || node.getScreenCTM().b : 1;
  texts.push({ text, size: Math.abs(scale) * parseFloat(getComputedStyle(node).fontSize),
    contrast: contrast(getComputedStyle(node)[isDrawn ? 'fill' : 'color'], ground(node)) });
}
"""
CELLS = """
const fill = (node) => getComputedStyle(node).fill;
const cells = state.cells.flat().filter(({ text }) => text).map(({ text, colour }) => ({
  text: text.textContent, size: parseFloat(text.style.fontSize) * text.getScreenCTM().a,
  contrast: contrast(fill(text), fill(colour)) }));
"""
CONTROLS = """[...document.querySelectorAll('select, input, button, summary')]
  .filter((one) => one.checkVisibility()).map((one) => [one.id, one.getBoundingClientRect().height])"""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The page of the site, and a small one, which has numbers in its cells on a phone too."""
    folder = tmp_path_factory.mktemp("explorers")
    site, small = folder / "site.html", folder / "small.html"
    site.write_text(page(payload(Exploration(), of_docs("hooks").MAGICDEC)), encoding="utf-8")
    written(small)
    return [site, small]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_text_is_legible_and_every_control_large_enough(
    browser: Browser, pages: list[Path], width: int, scheme: str
) -> None:
    for path in pages:
        browser.open(path, width=width, height=900, scheme=scheme)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        texts = browser.run(f"(() => {{ {COLOURS} {TEXTS} {CELLS} return [...texts, ...cells]; }})()")
        assert len(texts) > 80
        assert [one for one in texts if one["size"] < SMALLEST_TYPE - 0.01] == []
        assert [one for one in texts if one["contrast"] < CONTRAST] == []
        controls = browser.run(CONTROLS)
        assert [one for one in controls if one[1] < SMALLEST_TARGET] == []
