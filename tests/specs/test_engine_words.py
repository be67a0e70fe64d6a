"""The values of `--engine`: their order and spellings, and an engine without constants."""

from types import SimpleNamespace

import pytest

from perfmodel.specs import ENGINES, parse_engine
from perfmodel.specs.engines import stacks
from tests.refusals import refused


def test_serving_engines_are_listed_before_research_code() -> None:
    bundled = ["vllm", "sglang", "trtllm", "llamacpp", "mlx", "magicdec", "gpt-fast", "perfmodel"]
    assert [word for word in ENGINES if word in bundled] == bundled


@pytest.mark.parametrize("spelled", ["TensorRT-LLM", "tensorrt-llm", "trtllm", "trtllm-serve"])
def test_a_title_or_a_program_is_its_engine(spelled: str) -> None:
    assert parse_engine(spelled) == "trtllm"
    assert parse_engine(f"{spelled}@1.2.0") == "trtllm@1.2.0"


@pytest.mark.parametrize(
    ("lender", "reason"),
    [(None, "its file names no other engine"), ("other", "nor has other, which its file names")],
)
def test_an_engine_without_constants_says_what_its_file_lacks(monkeypatch, lender, reason) -> None:
    new = {"new": SimpleNamespace(constants_of=lender)}
    monkeypatch.setattr(stacks, "serving_engines", lambda: new)
    refused(rf"new has no fitted constants \({reason}\)", stacks.lender_of, "new")
    assert stacks.lender_of("vllm") == "vllm"
    assert stacks.lender_of("research") is None
