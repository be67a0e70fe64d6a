"""Pictures over several contexts use an acceptance that is looked up if it is the same at all of them."""

from pathlib import Path

import pytest

from perfmodel import cli


def test_a_surface_uses_the_acceptance_published_for_the_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "surface.svg"
    words = ["plot", "surface", "-m", "llama-3.1-8b", "--gpu", "h100", "-b", "1,4", "-c", "1k,8k"]
    assert cli.run([*words, "-o", str(picture)]) == 0
    assert "llama-3.1-8b on 1" in picture.read_text(encoding="utf-8")
    assert "the acceptance was published for short prompts" in capsys.readouterr().out


def test_an_acceptance_that_changes_with_the_context_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "plot",
        "breakdown",
        "-m",
        "llama-3.1-8b",
        "--gpu",
        "a100",
        "--tp",
        "8",
        "-b",
        "1",
        "-c",
        "8k,32k",
    ]
    assert cli.run([*words, "--draft-kv", "streamingllm:512", "-o", str(tmp_path / "x.svg")]) == 2
    assert "--alpha: must be given here" in capsys.readouterr().err
