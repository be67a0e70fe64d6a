"""Which draft and which length are assumed where the question names none."""

import re
from pathlib import Path

import pytest

from perfmodel.answers.point.inflection import InflectionQuery, inflection
from perfmodel.answers.point.whatif import whatif
from perfmodel.specs.boundary import files

H200 = {"hardware": "h200", "batch": 8, "context": 8192, "tp": 8}


@pytest.mark.parametrize(
    ("model", "draft"),
    [("qwen3-32b", "eagle3"), ("deepseek-r1", "mtp"), ("qwen2.5-32b", "eagle3"), ("glm-4.5-air", "mtp")],
)
def test_the_assumed_draft_is_one_that_the_engine_runs(model: str, draft: str) -> None:
    """An MTP module of the model, or a published EAGLE-3 head."""
    a = whatif(model=model, **H200)
    assert a.query.draft == draft
    assert a.runs_in is not None
    assert ">=" in a.runs_in
    assert f"no draft was given: {draft} is assumed" in a.warnings


@pytest.mark.parametrize(
    "stated",
    [
        {"alpha": 0.7},
        {"draft_kv": "snapkv:512", "alpha": 0.7},
        {"engine": "magicdec", "hardware": "h100"},
    ],
)
def test_a_stated_rate_or_kv_method_is_that_of_the_model_itself(stated: dict[str, object]) -> None:
    """As is every draft of MagicDec's engine."""
    assert whatif(**{"model": "llama-3.1-8b", **H200, **stated}).query.draft == "self"


def test_an_inflection_assumes_the_draft_that_whatif_assumes() -> None:
    a = inflection(InflectionQuery("qwen3-32b", "h200", 8, 3, 8192, engine="vllm"))  # `ideal` is no engine
    assert a.draft == "eagle3"
    assert a.draft_kv == "full"
    assert a.break_even_context == 1
    assert a.ideal.break_even_context == 1


@pytest.mark.parametrize("stated", [{"engine": "sglang"}, {"attention_backend": "triton"}])
def test_the_ideal_lengths_of_an_inflection_are_those_of_the_device_alone(stated: dict[str, str]) -> None:
    question = InflectionQuery("llama-3.1-8b", "h100", 32, 3, draft_kv="streamingllm:512", alpha=0.8)
    assert inflection(question, **stated).ideal == inflection(question).ideal


def test_a_baseline_that_is_asked_for_names_the_assumed_draft_and_its_best_length() -> None:
    baseline = whatif(model="qwen3-32b", gamma=0, **H200)
    assert baseline.query.draft == "eagle3"
    assert baseline.verdict == "does_not_pay"
    assert baseline.gamma_optimal == whatif(model="qwen3-32b", **H200).gamma_optimal > 0
    assert baseline.sentence == "Baseline (no speculation), as asked"


def test_a_draft_model_of_a_users_own_file_is_answered(tmp_path: Path) -> None:
    """Its acceptance is given; nothing is looked up under its name."""
    bundled = files.data_directory("models") / "llama-3.2-1b.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(bundled.read_text(encoding="utf-8").replace("name: llama-3.2-1b", "name: mine-1b", 1))
    answer = whatif(model="llama-3.1-8b", hardware="h100", batch=4, context=4096, draft=str(path), alpha=0.7)
    assert answer.as_dict()["speedup"] > 0


def test_where_no_length_gains_the_verdict_is_that_of_the_least_loss() -> None:
    """A loss of 1 % within a wide interval is not sure; one at an acceptance of 0 is."""
    near = whatif("gpt-oss-20b", "rtx-5090", 1, 4096, draft="eagle3", engine="llamacpp")
    assert near.query.gamma == 0
    assert near.verdict == "too_close_to_call"
    stated = re.search(r"gamma (\d+) gives ([\d.]+)x \(([\d.]+) to ([\d.]+);", near.reason)
    length, speedup, low, high = map(float, stated.groups())
    at_length = whatif(near.query, gamma=int(length))
    assert at_length.verdict == near.verdict
    assert at_length.speedup == pytest.approx(speedup, abs=0.005)
    assert at_length.speedup_interval == pytest.approx((low, high), abs=0.005)
    shorter = [whatif(near.query, gamma=n).speedup or 0.0 for n in (1, 2, 3)]
    assert at_length.speedup == max(shorter) < 1.0
    up_to_one = whatif(near.query, gamma=None, max_gamma=1)
    assert "gamma 1 gives" in up_to_one.reason
    sure = whatif("llama-3.1-8b", "h100", 1, 1024, draft="eagle3", alpha=0.0)
    assert sure.verdict == "does_not_pay"
    asked = whatif("gpt-oss-20b", "rtx-5090", 1, 4096, draft="eagle3", engine="llamacpp", gamma=0)
    assert asked.verdict == "does_not_pay"
