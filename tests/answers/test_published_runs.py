"""The published runs that a picture shows beside its prediction are of the same configuration."""

from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.answers.point.published_runs import measured_speedups
from perfmodel.answers.question import Query, resolve
from tests.commands import refused

ASKED = Query(
    "llama-3.1-8b", "h100", 16, 32000, 3, tp=8, engine="magicdec", draft_kv="streamingllm:512", alpha=0.8
)


def runs(**changes) -> list[tuple[int, int, int, float]]:
    return [tuple(run) for run in measured_speedups(resolve(replace(ASKED, **changes)))]


def test_the_runs_of_a_configuration_are_those_of_the_paper() -> None:
    """MagicDec (arXiv 2408.11049), table 6: eight H100s, self-speculation with StreamingLLM."""
    by_hand = [(16, 32000, 3, 1.08), (32, 32000, 3, 1.26), (64, 32000, 3, 1.55), (128, 32000, 4, 1.85)]
    assert runs() == by_hand
    assert runs(draft_kv="streamingllm:512,sinks=4", weights="bf16", kv_dtype="bf16") == by_hand


@pytest.mark.parametrize(
    "changes",
    [
        {"tp": 4},
        {"hardware": "h200"},
        {"engine": "sglang"},
        {"draft_kv": "streamingllm:1024"},
        {"draft_kv": "streamingllm:512,sinks=100"},
        {"draft_kv": "snapkv:512"},
        {"weights": "int4"},
        {"kv_dtype": "fp8"},
        {"draft_kv_dtype": "fp8"},
        {"draft": "llama-3.2-1b", "draft_weights": "fp8"},
    ],
    ids=str,
)
def test_runs_of_another_configuration_are_not_shown(changes: dict[str, object]) -> None:
    assert runs(**changes) == []


def test_a_picture_refuses_dots_that_were_not_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = "-m llama-3.1-8b --hardware h100 --tp 8 --engine magicdec --draft-kv streamingllm:512 --alpha 0.8"
    picture = ("-g", "3", "--weights", "int4", "--measured", "-o", str(tmp_path / "x.png"))
    line = refused(capsys, "plot", "surface", *asked.split(), *picture)
    assert "no run of this model, device, draft, formats and --gamma with --engine magicdec" in line
