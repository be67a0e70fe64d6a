"""The notebooks hold the outputs of a run, use the library's public names, and give their outputs again."""

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel import plots
from tests.scripts import ROOT, of_docs

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == kind
    ]


def sources(notebook: Path) -> list[str]:
    """The code, without IPython's own lines."""
    lines = ("".join(cell["source"]).splitlines() for cell in cells(notebook, "code"))
    return ["\n".join(line for line in code if not line.startswith("%")) for code in lines]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there_without_what_changes_from_run_to_run(notebook: Path) -> None:
    written = notebook.read_text(encoding="utf-8")
    assert '"image/png"' in written
    assert '"stderr"' not in written
    assert all(cell["execution_count"] is None and cell["metadata"] == {} for cell in cells(notebook, "code"))
    assert set(json.loads(written)["metadata"]) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_the_code_uses_is_public(notebook: Path) -> None:
    for node in (node for code in sources(notebook) for node in ast.walk(ast.parse(code))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfmodel"):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pm":
            assert node.attr in pm.__all__
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pm.plots":
            assert node.attr in plots.__all__


def results_of(notebook: Any) -> list[tuple[list[str], list[float]]]:
    """Words and numbers of every output, a picture being a word."""
    texts = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/plain", output.get("text", "")))
            words = re.split(r"(-?\d+\.?\d*(?:e-?\d+)?)", text)
            texts.append((" ".join(words[::2]).split(), [float(number) for number in words[1::2]]))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_prints_what_it_holds(notebook: Path) -> None:
    """From its own folder, in a fresh kernel: the same words, the same numbers, a picture where there was
    one.
    """
    pytest.importorskip("nbclient")
    kept = results_of(json.loads(notebook.read_text(encoding="utf-8")))
    again = results_of(of_docs("notebooks").run(notebook))
    assert [words for words, _ in kept] == [words for words, _ in again], "run `make docs` and commit"
    for (words, one), (_, two) in zip(kept, again, strict=True):
        assert one == pytest.approx(two, rel=0.02, abs=0.011), words
