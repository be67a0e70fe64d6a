"""Details of an advice without which an engineer would change it before running it."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfmodel.answers.advice import load_decision, shorter_draft
from perfmodel.answers.advice.advise import advise
from perfmodel.cli.advise_words import runs_text


@pytest.mark.parametrize(
    ("hardware", "weights"),
    [("2xa100", "int8"), ("2xh100", "fp8")],
    ids=["no FP8 arithmetic", "FP8 arithmetic"],
)
def test_eight_bits_are_those_that_the_device_computes_in(hardware: str, weights: str) -> None:
    answer = advise("llama-3.1-70b", hardware, batch=(8,), context=8192)
    named = next(each for each in answer.alternatives if each.text.startswith(f"With --weights {weights}"))
    assert ("quantized.w8a8" in named.line) is (weights == "int8")


def test_fp8_weights_on_a_device_without_fp8_arithmetic_are_said_to_save_only_memory() -> None:
    """No checkpoint of Gemma-3 in INT8 is known."""
    answer = advise("gemma-3-27b", "a100-40gb", context=8192, batch=(4,))
    named = next(each for each in answer.alternatives if each.text.startswith("With --weights fp8"))
    assert named.text.endswith(
        "(this GPU has no FP8 arithmetic: such weights save only memory and its bandwidth)"
    )


def test_clients_beyond_the_default_seats_have_the_seats_of_the_line() -> None:
    answer = advise("llama-3.2-1b", "a100", clients=400, input_len=500, output_len=200)
    assert "--max-num-seqs 400" in answer.serve.lines["vllm"]
    assert answer.chosen.batch > 256
    assert answer.chosen.ttft_s < 0.5, "no client waits for a seat"
    assert any("400 seats are more than the engine's default of 256" in text for text in answer.warnings)


def test_an_offline_job_has_no_draft_whose_gain_is_too_close_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_decision, "point_speedup", lambda question, point: (1.3, (0.9, 2.0)))
    chosen = SimpleNamespace(at_its_batch=lambda question: None)
    assert not load_decision._worth_the_risk(SimpleNamespace(fills=True), chosen)
    assert load_decision._worth_the_risk(SimpleNamespace(fills=False), chosen)


def test_a_shorter_draft_keeps_at_most_the_whole_speedup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shorter_draft, "speedups", lambda *point: np.array([1.0, 2.3, 2.1, 2.0]))
    point = SimpleNamespace(gamma=3, batch=8, candidate=SimpleNamespace(scenario=None))
    found = shorter_draft.shorter_draft(SimpleNamespace(context=1000), point)
    assert (found.gamma, found.share) == (1, 1.0)


def test_the_address_in_the_line_of_a_server_on_two_nodes_is_explained() -> None:
    answer = advise(
        "deepseek-v3", "16xh100", request_rate=0.5, input_len=4096, output_len=1024, max_tpot_ms=9
    )
    lines = [each for each in answer.alternatives if each.line and " HEAD " in each.line]
    assert lines
    assert all("HEAD stands for the address of node 0; node 1 adds" in each.text for each in lines)


def test_the_version_of_a_draft_is_that_of_its_method() -> None:
    said = "the first version with its method (newer models may need a later one)"
    assert runs_text("vLLM >= 0.9") == f"vLLM >= 0.9, {said}"
    assert runs_text("no engine yet (why)") == "no engine yet (why)"
