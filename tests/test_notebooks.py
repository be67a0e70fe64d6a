"""The notebooks hold the outputs of a run, use the library's public names, and their sliders redraw."""

import ast
import importlib
import json
import re
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import perfmodel as pm
from perfmodel import plots
from perfmodel.answers.question.query import Query, resolve
from perfmodel.plots.widgets import DEFAULT, Sliders, drafts_of, kv_at
from tests.scripts import of_docs

ROOT = Path(__file__).parents[1]
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
def test_outputs_are_there_without_what_changes_from_run_to_run_and_what_is_used_exists(
    notebook: Path,
) -> None:
    written = notebook.read_text(encoding="utf-8")
    assert '"image/png"' in written
    assert '"stderr"' not in written
    assert "widget-view" not in written
    assert all(cell["execution_count"] is None and cell["metadata"] == {} for cell in cells(notebook, "code"))
    assert set(json.loads(written)["metadata"]) == {"kernelspec", "language_info"}
    for node in (node for code in sources(notebook) for node in ast.walk(ast.parse(code))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfmodel"):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pm":
            assert node.attr in pm.__all__
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pm.plots":
            assert node.attr in plots.__all__


# The sliders of 03


@pytest.fixture
def surface() -> Sliders:
    """The widgets of 03_speedup_surfaces as its own cells make them."""
    pytest.importorskip("ipywidgets")
    names: dict[str, Any] = {}
    for code in sources(ROOT / "notebooks" / "03_speedup_surfaces.ipynb"):
        exec(code, names)
        if "surface" in names:
            break
    assert isinstance(names["surface"], Sliders)
    return names["surface"]


CHANGES: dict[str, Any] = {
    "hardware": "h100-sxm-80gb",
    "tp": 4,
    "model": "llama-3.1-70b",
    "draft": "llama-3.2-1b",
    "method": "quest",
    "budget": 4096,
    "alpha": 0.6,
    "gamma": 3,
}


def test_every_slider_redraws(surface: Sliders) -> None:
    """Each change draws another picture, and the first again where it is taken back."""
    assert set(CHANGES) == set(surface.controls)
    assert bytes(surface.picture.value).startswith(b"\x89PNG")
    for name, value in CHANGES.items():
        control, first = surface.controls[name], bytes(surface.picture.value)
        before, control.value = control.value, value
        assert (bytes(surface.picture.value) != first, surface.message.value) == (True, ""), name
        control.value = before
        assert (bytes(surface.picture.value) == first, surface.message.value) == (True, ""), name


def test_the_picture_answers_the_question_of_the_sliders(surface: Sliders) -> None:
    for name in ("model", "draft", "hardware", "tp", "method", "budget", "alpha", "gamma"):
        surface.controls[name].value = CHANGES[name]
    asked = surface.query()
    view = {"gamma": 3, "tp": 4, "draft": "llama-3.2-1b", "draft_kv": "quest:4096,page=16", "alpha": 0.6}
    assert asked == Query("llama-3.1-70b", "h100-sxm-80gb", 64, 32768, **view, engine="magicdec")
    assert bytes(surface.picture.value) == bytes(plots.sliders(asked).picture.value)  # type: ignore[union-attr]


def test_a_draft_of_another_vocabulary_is_not_kept(surface: Sliders) -> None:
    surface.controls["draft"].value = "llama-3.2-1b"
    surface.controls["model"].value = "llama-3.1-70b"
    assert surface.controls["draft"].value == "llama-3.2-1b"
    surface.controls["model"].value = "qwen3-32b"
    assert surface.controls["draft"].value == "self"
    assert "llama-3.2-1b" not in surface.controls["draft"].options
    assert "llama-3.2-1b" in drafts_of("llama-3.1-70b")


def test_what_cannot_be_asked_is_told_and_taken_back() -> None:
    pytest.importorskip("ipywidgets")
    made = plots.sliders(
        Query("llama-3.1-8b", "h100", 1, 1024, weights="fp8", draft_kv="streamingllm:512", alpha=0.8)
    )
    assert isinstance(made, Sliders)
    made.controls["hardware"].value = "a100-sxm-80gb"
    assert "fp8" in made.message.value
    assert made.picture.layout.display == "none"
    made.controls["hardware"].value = "h100-sxm-80gb"
    assert made.message.value == ""
    assert made.picture.layout.display is None


def test_where_no_widgets_are_shown_there_is_a_picture(
    surface: Sliders, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = surface._repr_mimebundle_()
    assert b64decode(shown["image/png"]) == bytes(surface.picture.value)
    assert "application/vnd.jupyter.widget-view+json" in shown
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert isinstance(plots.sliders(), Figure)


def test_methods_are_spelled_as_on_the_command_line() -> None:
    assert kv_at("streamingllm", 512) == "streamingllm:512"
    assert kv_at("full", 512) == "full"
    assert kv_at("pillar", 512) == "pillar,share=0.05"
    assert resolve(DEFAULT).draft.kv.budget == 512


def said(notebook: Any) -> list[tuple[list[str], list[float]]]:
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
    kept, again = (
        said(json.loads(notebook.read_text(encoding="utf-8"))),
        said(of_docs("notebooks").run(notebook)),
    )
    assert [words for words, _ in kept] == [words for words, _ in again], "run `make docs` and commit"
    for (words, one), (_, two) in zip(kept, again, strict=True):
        assert one == pytest.approx(two, rel=0.02, abs=0.011), words
