"""The documentation site builds without a warning, its links and anchors lead somewhere, and it fetches
nothing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
FETCHED = re.compile(
    r'<(?:link(?! rel="canonical")|script|img|iframe|source)\b[^>]*?\b(?:href|src)="([^"]+)"'
)

REACHED = "(e) => e.scrollWidth <= e.clientWidth || e.matches('[tabindex]') || e.querySelector('[tabindex]')"
"""The keyboard can scroll a block of code."""
CUT = """[...document.querySelectorAll('pre > code')].filter((code) => {
  code.querySelectorAll('.row').forEach((row) => row.remove());
  return code.scrollWidth > code.clientWidth;
}).map((code) => code.textContent.slice(0, 60))"""
"""Blocks of code in which more than the rows of a table is wider than the block."""
BROKEN = """[...document.querySelectorAll('code.whole, .flag')].filter((code) => {
  const words = document.createRange();
  words.selectNodeContents(code);
  return new Set([...words.getClientRects()].map((box) => box.top)).size > 1;
}).map((code) => code.textContent)"""
"""Flags and short words of code that end on another line."""
SPLIT = """[...document.querySelectorAll('td[style*="right"]')].filter((cell) => {
  const words = document.createRange();
  words.selectNodeContents(cell);
  const tops = new Set([...words.getClientRects()].map((box) => box.top));
  return tops.size > 1 && !/\\s/.test(cell.textContent.trim());
}).map((cell) => cell.textContent)"""
"""Numbers of tables that end on another line."""
COVERED = """[...document.querySelectorAll('.md-code__nav')].flatMap((nav) => {
  if (!nav.offsetWidth) return [];
  const button = nav.getBoundingClientRect();
  const under = (box) => box.width && box.right > button.left + 1 && box.bottom > button.top + 3
    && box.left < button.right && box.top < button.bottom - 3;
  const words = document.createRange();
  words.selectNodeContents(nav.parentElement.querySelector('code'));
  return [...words.getClientRects()].some(under) ? [words.toString().slice(0, 60)] : [];
})"""
"""Blocks of code with words under the button that copies."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *f"-m mkdocs build --strict --config-file {config} --site-dir {out}".split()]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement, not about these pages
    return subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every page of the built site."""
    out = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    assert not re.search("^WARNING", done.stderr, re.MULTILINE)
    return [path for path in sorted(out.rglob("*.html")) if path.name != "404.html"]


def test_every_page_is_on_the_site(site: list[Path]) -> None:
    generated = {"explorer", "explorer_models", *(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))}
    assert {path.stem for path in site} == {path.stem for path in (ROOT / "docs").glob("*.md")} | generated


def test_nothing_is_fetched_from_elsewhere(site: list[Path]) -> None:
    for path in site:
        fetched = FETCHED.findall(path.read_text(encoding="utf-8"))
        assert len(fetched) > 3 or path.stem.startswith("explorer")
        for address in fetched:
            assert not re.match(r"([a-z]+:)?//", address), f"{path.name}: {address}"
            assert (path.parent / re.split("[?#]", unquote(address))[0]).is_file(), f"{path.name}: {address}"


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_their_window_and_complain_of_nothing(site: list[Path], browser, width: int) -> None:
    for path in site:
        browser.open(path, width=width, height=900)
        assert browser.complaints == [], path.name
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), path.name
        assert browser.run(f"[...document.querySelectorAll('pre > code')].every({REACHED})"), path.name
        assert browser.run(COVERED) == [], path.name
        assert browser.run(CUT) == [], path.name
        assert browser.run(BROKEN) == [], path.name
        assert browser.run(SPLIT) == [], path.name


def test_the_explorer_of_a_notebook_works(site: list[Path], browser) -> None:
    (path,) = (path for path in site if path.stem == "03_speedup_surfaces")
    browser.open(path, width=1280, height=900)
    document = "document.querySelector('iframe').contentDocument"
    assert re.fullmatch(r"\d\.\d\dx", browser.run(f"{document}.getElementById('speedup').textContent"))
