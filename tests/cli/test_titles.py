"""Titles: an answer names the model that the user named, and the bundled model whose shape it has."""

import re
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.specs.boundary.files import data_directory
from tests.commands import run

SERVER = ("--model", "llama-3.3-70b", "--hardware", "h100", "--tp", "4")
BOTH = "llama-3.3-70b (shape of llama-3.1-70b) on "


@pytest.mark.parametrize(
    "words",
    [
        ("whatif", "--batch", "4"),
        ("whatif", "--batch", "4,8"),
        ("ops", "--batch", "4"),
        ("advise",),
        ("schedule",),
        ("compare", "--gamma", "3"),
    ],
    ids=" ".join,
)
def test_another_model_with_a_bundled_shape_is_named_with_it(words: tuple[str, ...], capsys) -> None:
    assert BOTH in run(capsys, *words, *SERVER, "--context", "8k").splitlines()[0]


def test_traffic_names_both_too(capsys) -> None:
    load = ("--input-len", "2k", "--output-len", "500", "--request-rate", "1")
    assert run(capsys, "traffic", *SERVER, *load).startswith(BOTH)


def test_json_has_the_model_as_named_and_its_shape() -> None:
    answer = pm.whatif("llama-3.3-70b", "h100", tp=4, batch=4, context="8k").as_dict()
    assert (answer["query"]["model"], answer["shape"]) == ("llama-3.3-70b", "llama-3.1-70b")


def test_rows_of_a_sweep_tell_models_of_one_shape_apart() -> None:
    names = ["llama-3.1-70b", "llama-3.3-70b"]
    rows = pm.sweep(names, "h100", batch=4, context="8k", gamma=3, tp=4, alpha=0.7).to_frame()
    assert list(rows["model"]) == names


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("qwen3-32b", "qwen3-32b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b"),
        ("unsloth/Qwen3-32B-GGUF:Q4_K_M", "qwen3-32b"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("qwen2.5-coder-7b", "qwen2.5-coder-7b (shape of qwen2.5-7b)"),
        (
            "unsloth/Llama-3.3-70B-Instruct-GGUF",
            "unsloth/Llama-3.3-70B-Instruct-GGUF (shape of llama-3.1-70b)",
        ),
    ],
)
def test_a_name_of_the_bundled_model_itself_adds_nothing(typed: str, title: str, capsys) -> None:
    printed = run(capsys, "ops", "--model", typed, "--hardware", "h100", "--tp", "4", "-b", "1", "-c", "1k")
    assert printed.replace("\n", " ").startswith(f"target pass of {title} on 4 x ")


def test_a_file_has_the_name_in_the_file(tmp_path: Path, capsys) -> None:
    text = (data_directory("models") / "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(re.sub("(?m)^name: .*", "name: llama-3.3-70b", text), encoding="utf-8")
    printed = run(capsys, "ops", "--model", str(path), "--hardware", "h100", "-b", "1", "-c", "1k")
    assert printed.startswith("target pass of llama-3.3-70b on ")
