"""The docs are true: generated pages are fresh, and every example of README.md and docs/ prints what it shows."""

import doctest
import importlib.util
import re
import shlex
import subprocess
import types
from pathlib import Path

import pytest

from perfmodel import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = generator()


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def test_generated_pages_and_examples_are_fresh() -> None:
    stale = [name for name, text in GENERATE.pages().items() if (ROOT / name).read_text(encoding="utf-8") != text]
    assert not stale, f"{', '.join(stale)}: run `make docs` and commit"


def test_every_console_block_is_generated() -> None:
    for page in PAGES:
        shown = len(blocks(page, "console"))
        found = len(GENERATE.CONSOLE.findall(page.read_text(encoding="utf-8")))
        assert shown == found
        assert not shown or str(page.relative_to(ROOT)) in GENERATE.EXAMPLES


def test_a_changed_output_would_be_noticed() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert GENERATE.CONSOLE.sub(GENERATE._with_output, text.replace("1.28", "1.82")) == text


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```python" in p.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_python_examples(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if "```sh" in p.read_text(encoding="utf-8")], ids=lambda p: p.name)
def test_shell_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "perfmodel"
            assert cli.run(arguments) == 0


def test_make_demo_is_the_readme_s_first_example() -> None:
    done = subprocess.run(
        ["make", "-n", "-o", ".venv/.base", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (command,) = (line for line in done.stdout.splitlines() if "whatif" in line)
    shown = blocks(ROOT / "README.md", "console")[0].replace("\\\n", " ").splitlines()[0]
    assert shlex.split(command)[1:] == shlex.split(shown)[2:]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
