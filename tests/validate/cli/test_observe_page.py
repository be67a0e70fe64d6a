"""docs/observe.md end to end: its own commands and its own snippet, on tiny folders in place of 8B and 1B."""

import re
import shlex
from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.specs.acceptance_file import read_acceptance
from tests.validate.tiny_folder import WORDS, write_folder

PAGE = (Path(__file__).parents[3] / "docs" / "observe.md").read_text(encoding="utf-8")
SMALLER = {"8k,16k,32k": "96,128,160", "8k": "64", "24k": "144", "512": "40", "2k": "48", "128": "24"}
"""Sizes of the page -> sizes for a model of two layers."""


def commands() -> list[list[str]]:
    lines = re.findall(r"^    perfmodel (.*)$", PAGE, re.M)
    return [[SMALLER.get(word, word) for word in re.sub(r":(512|2k)\b", _budget, line).split()] for line in lines]


def _budget(found: "re.Match[str]") -> str:
    return ":" + SMALLER[found[1]]


@pytest.mark.slow
def test_its_commands_run(tmp_path, monkeypatch, capsys, target, small) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    folders = {"llama-3.1-8b": target, "llama-3.2-1b": small}
    for name, model in folders.items():
        write_folder(tmp_path / "models" / name, model)
    (tmp_path / "pg19" / "test").mkdir(parents=True)
    for book in range(4):
        text = " ".join(WORDS[(3 * i * i + 5 * book) % len(WORDS)] for i in range(150 + book))
        (tmp_path / "pg19" / "test" / f"{book}.txt").write_text(text)
    exec(re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.M)[0])
    assert len(commands()) == 6
    for words in commands():
        assert run(words) == 0, (shlex.join(words), capsys.readouterr().err)
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("--- continuation ") == 4
    assert said.count("interpolated in log context") == 2
    assert said.count("by 4 documents") >= 2
    kinds = {name: {(r.draft, r.draft_kv, r.kv_budget_tokens) for r in read_acceptance(name)} for name in FILES}
    assert {name: len(found) for name, found in kinds.items()} == {"sparse.json": 4, "small.json": 1, "ngram.json": 1}


FILES = ("sparse.json", "small.json", "ngram.json")
