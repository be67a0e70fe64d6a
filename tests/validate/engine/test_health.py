"""Whether a server is as fast as predicted, by its own log, and which half is off."""

import re
from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.cli import run
from perfmodel.reading import data_folder
from perfmodel.validate.engine.compared import predicted_prompt_s
from perfmodel.validate.engine.pastes import PromptTiming
from tests.validate.engine.health_logs import (
    BAD,
    RATES,
    plain_log,
    predicted_tokens_per_s,
    sglang_log,
    vllm_log,
    watched,
)

GRAPHS = "compilation_config={'cudagraph_capture_sizes': [1, 2, 4, 8, 16], 'max_cudagraph_capture_size': 16}"
EAGER = "Initializing a V1 LLM engine (v0.32.0) with config: enforce_eager=True, kv_cache_dtype=auto"


def sglang_prompts(new_tokens: int, tokens_per_s: float) -> str:
    """Four running requests; one prompt batch before each line of decoding, every ten seconds."""
    decoding = sglang_log(2.8, (2.8 - 1) / 5).splitlines()[0].replace("400.00", f"{tokens_per_s:.2f}")
    prompts = f"Prefill batch, #new-seq: 2, #new-token: {new_tokens}, #running-req: 4, cuda graph: False"
    stamps = [f"[2026-11-02 10:00:{second:02}" for second in range(0, 60, 10)]
    return "".join(f"{stamp} TP0] {prompts}\n{stamp} TP0] {decoding}\n" for stamp in stamps)


def test_a_server_as_fast_as_predicted_is_healthy(tmp_path, capsys) -> None:
    status, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s()))
    assert "health: healthy: measured" in out
    assert status == 0
    assert "keep K = 3" in out


def test_a_slow_iteration_is_named_with_the_sign_in_the_log(tmp_path, capsys) -> None:
    slow = predicted_tokens_per_s() / 4
    status, out = watched(tmp_path, capsys, vllm_log(slow, first="config: enforce_eager=True"))
    assert status == 1
    assert "health: the iteration is off" in out
    assert "an iteration takes 4.0 times as long as predicted" in out
    assert "CUDA graphs are off" in out
    assert "keep K" not in out
    _, unexplained = watched(tmp_path, capsys, vllm_log(slow))
    assert "nothing that explains it" in unexplained
    assert "a batch outside the captured sizes" in unexplained


def test_requests_that_wait_make_it_the_load(tmp_path, capsys) -> None:
    status, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s() / 4, waiting=20))
    assert status == 1
    assert "health: the load is off" in out
    assert "20 requests wait" in out


def test_requests_that_wait_at_a_healthy_server_are_named(tmp_path, capsys) -> None:
    status, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(), waiting=20))
    assert status == 0
    assert "health: healthy" in out
    assert "20 requests wait: this server takes no more of them at once" in out


def with_prompts(log: str, share: float) -> str:
    """The log with so many prompt tokens that the target and the draft need this share of the time."""
    query = Query("qwen3-32b", "h100", batch=8, context=4096, gamma=3, tp=2, draft="eagle3")
    prompt_s = predicted_prompt_s(resolve_costs(query), PromptTiming(4096, 0.0, 0.0), drafts=True)
    return log.replace("prompt throughput: 0.0", f"prompt throughput: {share * 4096 / prompt_s:.1f}")


@pytest.mark.parametrize(("share", "named"), [(0.0499, False), (0.0501, True)])
def test_prompts_are_named_from_a_twentieth_of_the_time_on(
    tmp_path, capsys, share: float, named: bool
) -> None:
    log = vllm_log(predicted_tokens_per_s() / 4, waiting=20)
    _, out = watched(tmp_path, capsys, with_prompts(log, share))
    assert ("prompt tokens per second take" in out) is named
    assert ("0% of the prompt tokens were in the prefix cache" in out) is named


@pytest.mark.parametrize(
    ("times", "share", "half"),
    [
        (3.0, 0.43, "the iteration is off"),  # 0.43 x 3 is less than two thirds of 3 - 1
        (3.0, 0.46, "the load is off"),
        (1.5, 0.24, "healthy"),
        (1.5, 0.26, "the load is off"),
    ],
)
def test_prompts_explain_two_thirds_of_the_excess_and_are_usual_below_a_quarter(
    tmp_path, capsys, times: float, share: float, half: str
) -> None:
    log = with_prompts(vllm_log(predicted_tokens_per_s() / times), share)
    assert f"health: {half}: measured" in watched(tmp_path, capsys, log)[1]


def test_prompts_take_at_most_all_of_the_time(tmp_path, capsys) -> None:
    log = vllm_log(predicted_tokens_per_s() / 4).replace(
        "prompt throughput: 0.0", "prompt throughput: 1000000.0"
    )
    _, out = watched(tmp_path, capsys, log)
    assert "1000000 prompt tokens per second take 100% of the time" in out


def test_a_low_acceptance_is_named_although_the_iteration_is_as_predicted(tmp_path, capsys) -> None:
    rates = (0.2, 0.04, 0.01)
    status, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(rates), rates=rates))
    assert status == 1
    assert "health: the acceptance is off" in out
    assert re.search(r"1\.25 tokens per iteration, below the expected", out)
    assert "mend this before the draft length: the figures above hold for the counted acceptance" in out


@pytest.mark.parametrize(
    ("new_tokens", "half"), [(150_000, "the load is off"), (100, "the iteration is off")]
)
def test_prompts_between_the_lines_of_sglang_are_the_load(tmp_path, capsys, new_tokens, half) -> None:
    """Lines of prompts say that they run without a CUDA graph, which is usual."""
    _, out = watched(tmp_path, capsys, sglang_prompts(new_tokens, 60.0), "--engine", "sglang")
    assert f"health: {half}" in out
    assert "CUDA graphs are off" not in out
    assert ("15000 prompt tokens per second take" in out) == (new_tokens > 1000)


def test_a_line_of_sglang_without_a_valid_time_has_no_prompts(tmp_path, capsys) -> None:
    log = sglang_prompts(100_000, 60.0).replace("2026-11-02", "2026-99-99")
    _, out = watched(tmp_path, capsys, log, "--engine", "sglang")
    assert "health: the iteration is off" in out


@pytest.mark.parametrize(
    ("slowed", "log", "half", "why"),
    [
        ("nothing", {}, "healthy", ""),
        (
            "usual prompts",
            {"times": 1.45, "prompts": 2500.0},
            "healthy",
            "of it; the rest is as long as predicted",
        ),
        (
            "usual prompts, in eager mode",
            {"times": 1.5, "prompts": 2500.0, "first": EAGER},
            "the iteration is off",
            "CUDA graphs are off",
        ),
        ("eager mode", {"times": 2.5, "first": EAGER}, "the iteration is off", "CUDA graphs are off"),
        ("fewer threads", {"times": 2.5}, "the iteration is off", "fewer threads"),
        (
            "a batch outside the captured sizes",
            {"times": 2.0, "first": GRAPHS},
            "the iteration is off",
            "an iteration has 32 tokens, and the largest captured CUDA graph 16",
        ),
        ("a draft that is rejected", {"rates": BAD}, "the acceptance is off", "1.25 tokens per iteration"),
        (
            "long prompts",
            {"times": 2.5, "prompts": 9000.0},
            "the load is off",
            "9000 prompt tokens per second take",
        ),
    ],
)
def test_a_server_that_is_slowed_in_five_ways(tmp_path, capsys, slowed, log, half, why) -> None:
    """A stand-in prints the lines of vLLM 0.32 for a server that is slower by a factor. Prompts that take a
    fifth of the time are no fault.
    """
    rates = log.get("rates", RATES)
    pace = predicted_tokens_per_s(rates) / log.get("times", 1.0)
    text = vllm_log(pace, rates=rates, first=log.get("first", ""))
    text = text.replace("prompt throughput: 0.0", f"prompt throughput: {log.get('prompts', 0.0)}")
    status, out = watched(tmp_path, capsys, text)
    assert f"health: {half}: measured" in out, slowed
    assert why in out
    assert status == (0 if half == "healthy" else 1)


def test_prompts_that_take_little_do_not_excuse_a_slow_step(tmp_path, capsys) -> None:
    text = vllm_log(predicted_tokens_per_s() / 2.5).replace(
        "prompt throughput: 0.0", "prompt throughput: 90.0"
    )
    _, out = watched(tmp_path, capsys, text)
    assert "health: the iteration is off" in out


def test_a_real_server_whose_processors_are_taken_is_slow_in_its_iterations(capsys) -> None:
    """vLLM 0.32 on two cores that other work used, at a load of 9. Its context follows from its cache."""
    files = Path(__file__).parent / "files"
    served = {"--model": "target-config.json", "--draft": "draft-config.json"}
    served["--watch"] = "vllm-log-starved.txt"
    machine = data_folder("results") / "cpu-engine"
    words = [word for flag, name in served.items() for word in (flag, str(files / name))]
    words += ["--hardware", str(machine / "device.yaml"), "--calibration", str(machine / "kernels.yaml")]
    assert run(["validate", "engine", *words]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "requests: 4 running, at 379 tokens of context" in out
    assert "health: the iteration is off: measured 83 ms per token, 252 ms per iteration" in out
    assert "nothing that explains it" in out


def test_a_load_of_two_lines_is_asked_for_again(tmp_path, capsys) -> None:
    """A load of four clients that lasted two seconds: a healthy vLLM 0.32 that looked slow."""
    lines = vllm_log(predicted_tokens_per_s() / 4).splitlines(keepends=True)
    first, *_ = vllm_log(predicted_tokens_per_s() / 9).splitlines(keepends=True)[1:]
    status, out = watched(tmp_path, capsys, "".join([first, *lines[2:5]]))
    assert "health: not decided" in out
    assert "let a load run for three lines of the log" in out
    assert status == 0
    _, long = watched(tmp_path, capsys, "".join(lines))
    assert "let a load run" not in long


def test_two_lines_that_agree_are_inside_a_load(tmp_path, capsys) -> None:
    lines = vllm_log(predicted_tokens_per_s() / 4).splitlines(keepends=True)
    status, out = watched(tmp_path, capsys, "".join(lines[:5]))
    assert "health: the iteration is off" in out
    assert status == 1


def test_preemptions_that_vllm_counts_make_it_the_load(tmp_path, capsys) -> None:
    """vLLM prints their number only if there are any."""
    log = vllm_log(predicted_tokens_per_s() / 4)
    for count, half in ((12, "the load is off"), (0, "the iteration is off")):
        counted = log.replace("reqs, GPU", f"reqs, Preemptions: {count}, GPU")
        assert f"health: {half}" in watched(tmp_path, capsys, counted)[1]


def test_the_edges_of_a_load_do_not_make_a_server_slow(tmp_path, capsys) -> None:
    edge = vllm_log(predicted_tokens_per_s() / 9).splitlines(keepends=True)
    inside = vllm_log(predicted_tokens_per_s()).splitlines(keepends=True)
    _, out = watched(tmp_path, capsys, "".join([*edge[:3], *inside[:3], *edge[:3]]))
    assert "health: healthy: measured" in out


def test_of_two_things_that_are_off_the_one_that_costs_more_is_named(tmp_path, capsys) -> None:
    """1.25 of at least 1.77 expected tokens, beside iterations that take 1.41 or 4 times as long."""
    for times, half in ((1.41, "the acceptance is off"), (4.0, "the iteration is off")):
        _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(BAD) / times, rates=BAD))
        assert f"health: {half}: measured" in out
        assert "1.25 tokens per iteration, below the expected" in out


@pytest.mark.parametrize(("times", "status", "half"), [(1.0, 0, "healthy"), (3.0, 1, "the iteration is off")])
def test_a_server_without_drafts_is_compared_with_the_baseline(tmp_path, capsys, times, status, half) -> None:
    step_s = whatif("llama-3.1-8b", "h100", batch=8, context=4096, draft="ngram", gamma=0).ar_tpot_s
    path = tmp_path / "server.log"
    path.write_text(plain_log(8 / step_s / times))
    ask = ["validate", "engine", "--watch", str(path), "--model", "llama-3.1-8b", "--hardware", "h100"]
    assert run(ask) == status
    out = " ".join(capsys.readouterr().out.split())
    assert "requests: 8 running, at 4096 tokens of context; no drafts" in out
    assert f"health: {half}: measured" in out
    assert run([*ask, "--draft", "eagle3"]) == 2
    assert "counts no draft" in capsys.readouterr().err


def test_lines_that_are_only_partly_idle_decide_nothing(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    path.write_text(plain_log(100.0, lines=1))
    ask = ["validate", "engine", "--watch", str(path), "--model", "llama-3.1-8b", "--hardware", "h100"]
    assert run(ask) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "health: not decided" in out
    assert "let a load run for three lines of the log" in out


def test_usual_prompts_are_the_load_where_requests_wait(tmp_path, capsys) -> None:
    log = vllm_log(predicted_tokens_per_s() / 1.5, waiting=3)
    _, out = watched(tmp_path, capsys, log.replace("prompt throughput: 0.0", "prompt throughput: 2500.0"))
    assert "health: the load is off" in out
