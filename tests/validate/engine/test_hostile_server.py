"""Whatever a server sends: one line that names its fault, in bounded time and memory, and nothing kept."""

import pytest

from perfmodel.cli import run
from perfmodel.validate.engine import client
from tests.validate.engine.hostile_server import FAULTS, broken

ASK = ["validate", "engine", "--model", "llama-68m", "--hardware", "h100", "--draft", "ngram", "--calibration", "ideal"]
ASK += ["--batches", "1", "--prompts", "8", "--new-tokens", "12"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_is_one_line_and_leaves_nothing(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(client, "PAGE_S", 0.2 if FAULTS[name].says == "is not whole after" else 60.0)
    monkeypatch.setattr(client, "ANSWER_S", client.PAGE_S)
    with broken(FAULTS[name]) as url:
        assert run([*ASK, "--url", url, "--results", str(tmp_path)]) == 2
    line = capsys.readouterr().err.rstrip("\n")
    assert line.startswith("error: --url: ")
    assert line.isprintable()
    assert FAULTS[name].says in line
    assert not list(tmp_path.iterdir())


def test_a_server_without_a_fault_is_measured(tmp_path, capsys) -> None:
    with broken(None) as url:
        assert run([*ASK, "--url", url, "--results", str(tmp_path)]) == 0
    assert "must hold two draft lengths" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("engine-*-K0.json"))) == 1
