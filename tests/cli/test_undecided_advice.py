"""The end of an answer of `advise` that is undecided."""

import pytest

from perfmodel import cli
from perfmodel.cli.advise_words import COUNTERS_READ
from perfmodel.validate.engine.acceptance import MODULES

MAC = "-m qwen3-30b-a3b-2507 --hardware apple-m3-ultra-512gb -c 16k --engine mlx --weights int4-g64"
LOAD = (
    "-m llama-3.1-405b --hardware h100 --gpus 8 --request-rate 0.5 --input-len 2000 --output-len 400 "
    "--slo ttft:4000,tpot:60 --weights fp8 --engine trtllm"
)


@pytest.mark.parametrize(("question", "engine"), [(MAC, "MLX"), (LOAD, "TensorRT-LLM")])
def test_it_says_to_measure_a_draft_before_deciding_and_with_what(
    question: str, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(("advise", *question.split())) == 1
    words = " ".join(capsys.readouterr().out.split())
    assert "Undecided: " in words
    assert "start without a draft; measure one, then decide" in words
    assert "leave speculation off" not in words
    assert "/metrics" not in words
    assert f"SGLang or llama.cpp with the same draft; those of {engine} are not read" in words


def test_the_engines_that_it_names_are_those_whose_counters_are_read() -> None:
    assert {name.lower() for name in COUNTERS_READ} == set(MODULES)
