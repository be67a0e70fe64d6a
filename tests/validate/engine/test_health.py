"""Whether a server is as fast as predicted, by its own log, and which half is off."""

import re
from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run
from perfmodel.reading import data_folder

ASK = ["--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3", "--context", "4k"]
RATES = (0.75, 0.5, 0.3)
GAINED = 1 + sum(RATES)


def vllm_log(tokens_per_s: float, waiting: int = 0, rates: tuple[float, ...] = RATES, first: str = "") -> str:
    """Eight running requests that draft three tokens."""
    pace = f"Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tokens_per_s:.1f} tokens/s"
    load = f"Running: 8 reqs, Waiting: {waiting} reqs, GPU KV cache usage: 4.0%, Prefix cache hit rate: 0.0%"
    accepted = round(1000 * sum(rates))
    shares = ", ".join(f"{rate:.3f}" for rate in rates)
    drafts = (
        "SpecDecoding metrics: Mean acceptance length: 2.55, Accepted throughput: 1.00 tokens/s, Drafted "
        f"throughput: 1.00 tokens/s, Accepted: {accepted} tokens, Drafted: 3000 tokens, Per-position "
        f"acceptance rate: {shares}, Avg Draft acceptance rate: 50.0%"
    )
    return f"{first}\n" + f"INFO loggers.py: Engine 000: {pace}, {load}\nINFO metrics.py: {drafts}\n" * 3


def predicted_tokens_per_s(rates: tuple[float, ...] = RATES) -> float:
    conditional = "/".join(f"{b / a:.9g}" for a, b in zip((1.0, *rates), rates, strict=False))
    question = {"batch": 8, "context": 4096, "tp": 2, "draft": "eagle3", "gamma": 3, "rate": conditional}
    return whatif("qwen3-32b", "h100", **question).throughput_tokens_per_s


def watched(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str, *more: str) -> tuple[int, str]:
    path = tmp_path / "server.log"
    path.write_text(log)
    status = run(["validate", "engine", "--watch", str(path), *ASK, *more])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


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


def test_a_low_acceptance_is_named_although_the_iteration_is_as_predicted(tmp_path, capsys) -> None:
    rates = (0.2, 0.04, 0.01)
    status, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(rates), rates=rates))
    assert status == 1
    assert "health: the acceptance is off" in out
    assert re.search(r"1\.25 tokens per iteration, below the expected", out)
    assert "mend this before the draft length: the figures above hold for the counted acceptance" in out


def test_the_tokens_of_a_measured_acceptance_are_one_number(tmp_path, capsys) -> None:
    healthy = tmp_path / "healthy.log"
    healthy.write_text(vllm_log(predicted_tokens_per_s()))
    rows = str(tmp_path / "rows.json")
    subject = ["--target", "qwen3-32b", "--draft", "eagle3", "--gamma", "3", "--context", "4k"]
    assert run(["validate", "acceptance", "--import", str(healthy), *subject, "--out", rows]) == 0
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(BAD), rates=BAD), "--acceptance", rows)
    assert f"below the expected {GAINED:.2f}: check" in out


def sglang_log(length: float, rate: float) -> str:
    """Four lines of four running requests."""
    load = "Decode batch, #running-req: 4, #token: 16000, token usage: 0.10"
    drafts = f"accept len: {length:.2f}, accept rate: {rate:.2f}, cuda graph: True"
    return f"{load}, {drafts}, gen throughput (token/s): 400.00, #queue-req: 0,\n" * 4


@pytest.mark.parametrize("rate", [(2.8 - 1) / 5, 2.8 / 6])
def test_the_draft_length_of_an_sglang_log_follows_from_its_rate(tmp_path, capsys, rate: float) -> None:
    """Before April 2026 SGLang counted the bonus token in the rate: 2.8/6; since then (2.8 - 1)/5."""
    _, out = watched(tmp_path, capsys, sglang_log(2.8, rate), "--engine", "sglang")
    assert "K = 5" in out
    assert "health:" in out


def test_both_draft_lengths_of_an_sglang_log_are_named(tmp_path, capsys) -> None:
    """(3.62 - 1) / 0.52 = 5, or 3.62 / 0.52 = 7 with the bonus token."""
    status, out = watched(tmp_path, capsys, sglang_log(3.62, 0.52), "--engine", "sglang")
    assert status == 2
    assert "--gamma: must be given" in out
    assert "agrees with 5 or 6 drafted tokens" in out


def test_lines_of_data_parallel_ranks_are_those_of_each_rank(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    ask = ["validate", "engine", "--watch", str(path), "--model", "deepseek-r1", "--hardware", "h200"]
    ask += ["--tp", "8", "--dp", "8", "--ep", "8", "--draft", "mtp", "--context", "4k"]
    for engine, log in (("vllm", vllm_log(100.0)), ("sglang", sglang_log(2.8, 0.6))):
        path.write_text(log.replace("Decode batch", "DP3 TP3] Decode batch"))
        run([*ask, "--engine", engine])
        running = 8 * (8 if engine == "vllm" else 4)
        assert f"requests: {running} running" in capsys.readouterr().out
    path.write_text(vllm_log(800.0).replace("Engine 000:", "8 Engines Aggregated:"))
    run([*ask, "--engine", "vllm"])
    assert "requests: 8 running" in capsys.readouterr().out


def test_at_most_two_positions_more_than_were_counted_are_recommended(tmp_path, capsys) -> None:
    log = sglang_log(5.5, (5.5 - 1) / 5)
    _, out = watched(tmp_path, capsys, log, "--engine", "sglang", "--weights", "fp8")
    changes = re.search(r"change: K = (\d+)", out)
    assert changes is None or int(changes[1]) <= 7
    if "run instead" in out:
        assert "--weights fp8 --engine sglang" in out


def test_the_next_command_has_every_flag_of_the_question(tmp_path, capsys) -> None:
    served = {"--weights": "fp8", "--kv-dtype": "fp8", "--memory-fraction": "0.8", "--draft-weights": "fp8"}
    served["--engine"] = "sglang"
    more = [word for pair in served.items() for word in pair]
    log = sglang_log(5.5, (5.5 - 1) / 5).replace("400.00", "4000.00")
    _, out = watched(tmp_path, capsys, log, *more)
    command = out.partition("run instead: ")[2].split()
    for flag, value in {**served, "--tp": "2"}.items():
        assert command[command.index(flag) + 1] == value
    assert run(command[1:]) == 0


def sglang_prompts(new_tokens: int, tokens_per_s: float) -> str:
    """Four running requests; one prompt batch before each line of decoding, every ten seconds."""
    decoding = sglang_log(2.8, (2.8 - 1) / 5).splitlines()[0].replace("400.00", f"{tokens_per_s:.2f}")
    prompts = f"Prefill batch, #new-seq: 2, #new-token: {new_tokens}, #running-req: 4, cuda graph: False"
    stamps = [f"[2026-11-02 10:00:{second:02}" for second in range(0, 60, 10)]
    return "".join(f"{stamp} TP0] {prompts}\n{stamp} TP0] {decoding}\n" for stamp in stamps)


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


def test_a_length_that_is_best_nowhere_is_said_without_empty_ranges(tmp_path, capsys) -> None:
    rates = (0.05, 0.01, 0.001)
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(rates), rates=rates))
    assert "none" not in out


GRAPHS = "compilation_config={'cudagraph_capture_sizes': [1, 2, 4, 8, 16], 'max_cudagraph_capture_size': 16}"
EAGER = "Initializing a V1 LLM engine (v0.32.0) with config: enforce_eager=True, kv_cache_dtype=auto"
BAD = (0.2, 0.04, 0.01)


@pytest.mark.parametrize(
    ("slowed", "log", "half", "why"),
    [
        ("nothing", {}, "healthy", ""),
        (
            "usual prompts",
            {"times": 1.5, "prompts": 2500.0},
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


def test_more_requests_than_sglang_captured_are_named(tmp_path, capsys) -> None:
    log = "server_args=ServerArgs(cuda_graph_max_bs=2)\n" + sglang_log(2.8, (2.8 - 1) / 5).replace(
        "400.00", "40.00"
    )
    _, out = watched(tmp_path, capsys, log, "--engine", "sglang")
    assert "an iteration has 4 requests, and the largest captured CUDA graph 2" in out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("server_args=ServerArgs(attention_backend='triton')", "runs on triton, and fa3 was predicted"),
        ("Attention backend not specified. Use flashinfer backend by default.", "runs on flashinfer"),
        ("Attention backend not specified. Use fa3 backend by default.", "nothing that explains"),
        ("server_args=ServerArgs(attention_backend=None)", "nothing that explains"),
    ],
)
def test_another_attention_backend_of_sglang_is_named(tmp_path, capsys, line: str, says: str) -> None:
    log = sglang_log(2.8, (2.8 - 1) / 5).replace("400.00", "40.00")
    _, out = watched(tmp_path, capsys, f"{line}\n{log}", "--engine", "sglang")
    assert says in out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("INFO Using TRITON_ATTN attention backend out of potential backends: [...]", "runs on TRITON_ATTN"),
        (
            "WARNING Async scheduling is disabled because the V1 model runner",
            "asynchronous scheduling is off",
        ),
        ("WARNING Overriding cudagraph_mode from FULL to PIECEWISE.", "CUDA graphs are piecewise"),
        ("load_tensors: offloaded 25/65 layers to GPU", "40 of 65 layers run on the host"),
        ("llama_context: flash_attn    = disabled", "flash attention is off"),
        ("llama_context: Flash Attention was auto, set to disabled", "flash attention is off"),
        ("llama_context: Flash Attention was auto, set to enabled", "nothing that explains"),
        ("ggml_cuda: disabling CUDA graphs due to GPU architecture", "without CUDA graphs"),
        ("compilation_config={'mode': <CompilationMode.NONE: 0>}", "torch.compile is off"),
        ("compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>}", "nothing that explains"),
        ("NCCL_P2P_DISABLE=1 vllm serve Q/W", "exchange data through host memory"),
        ("cuda_graph_config: null", "CUDA graphs are off"),
        ("LLM Args: cuda_graph_config=CudaGraphConfig(batch_sizes=None)", "nothing that explains"),
        ("disable_overlap_scheduler: true", "the overlap of host and device is off"),
        ("INFO Using FlashAttention version 2", "runs on flash-attn2, and flash-attn3 was predicted"),
        ("INFO Using FlashAttention version 3", "nothing that explains"),
        ("INFO config: {'cpu_offload_gb': 0.5}", "weights lie in host memory"),
        ("INFO config: cpu_offload_gb=4, swap_space=4", "weights lie in host memory"),
        ("INFO config: cpu_offload_gb=0.0, {'cpu_offload_gb': 0}", "nothing that explains"),
        ("INFO Using FLASH_ATTN attention backend out of potential backends: [...]", "nothing that explains"),
        ("INFO Using NIXL_NEW backend", "nothing that explains"),
        ("load_tensors: offloaded 65/65 layers to GPU", "nothing that explains"),
    ],
)
def test_known_lines_of_a_slow_server_are_named(tmp_path, capsys, line: str, says: str) -> None:
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s() / 4, first=line))
    assert "health: the iteration is off" in out
    assert says in out


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


USUAL = {
    "the custom all-reduce is off": "Custom allreduce is disabled because it is not supported on more than "
    "two PCIe-only GPUs.",
    "the server takes fewer requests": "max_running_requests is reset to 48 for speculative decoding.",
}
"""Meaning of a sign that many servers have, and their line."""


@pytest.mark.parametrize("meaning", USUAL)
def test_a_sign_that_many_servers_have_decides_nothing(tmp_path, capsys, meaning: str) -> None:
    slow = predicted_tokens_per_s() / 4
    _, loaded = watched(tmp_path, capsys, vllm_log(slow, waiting=20, first=USUAL[meaning]))
    assert "health: the load is off" in loaded
    _, alone = watched(tmp_path, capsys, vllm_log(slow, first=USUAL[meaning]))
    assert "health: the iteration is off" in alone
    assert f"seen in the log: {meaning}" in alone


def test_a_log_of_drafts_needs_to_know_which(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    path.write_text("speculative_config={'method': 'mtp', 'num_speculative_tokens': 3}\n" + vllm_log(100.0))
    ask = ["validate", "engine", "--watch", str(path), "--model", "qwen3.5-27b", "--hardware", "h100"]
    assert run(ask) == 2
    assert "--draft: must be given: " in (said := capsys.readouterr().err)
    assert "of method mtp" in said


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


def plain_log(tokens_per_s: float, lines: int = 3) -> str:
    """Eight running requests of vLLM without a draft, 10 % of a cache of 327,680 tokens."""
    pace = f"Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tokens_per_s:.1f} tokens/s"
    load = "Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%, Prefix cache hit rate: 0.0%"
    return "GPU KV cache size: 327,680 tokens\n" + f"INFO: Engine 000: {pace}, {load}\n" * lines


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


def test_a_page_without_positions_has_the_length_of_its_drafts(tmp_path, capsys) -> None:
    """2.55 tokens per iteration of three drafted, in 20 ms each."""
    counters = {"drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 1550}
    page = "".join(f"vllm:spec_decode_num_{name}_total {count}\n" for name, count in counters.items())
    page += "vllm:num_requests_running 8\n"
    page += "vllm:inter_token_latency_seconds_sum 20\nvllm:inter_token_latency_seconds_count 1000\n"
    _, out = watched(tmp_path, capsys, page)
    assert "2.55 tokens per iteration" in out
    assert "20 ms per iteration" in out


PAGES = {
    "vllm": (
        "vllm:kv_cache_usage_perc 0.05\nvllm:num_requests_running 8\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 750\n'
        "vllm:spec_decode_num_drafts_total 1000\nvllm:spec_decode_num_draft_tokens_total 1000\n"
    ),
    "sglang": (
        "sglang:spec_accept_length 2.95\nsglang:spec_accept_rate 0.65\nsglang:gen_throughput 900.0\n"
        "sglang:num_running_reqs 4\nsglang:num_used_tokens 36000\n"
    ),
}
"""Gauges and counters of a page, without the lengths of requests."""


@pytest.mark.parametrize(("engine", "length"), [("vllm", 1), ("sglang", 3)])
def test_gauges_of_a_page_state_the_context_and_the_draft_length(tmp_path, capsys, engine, length) -> None:
    path = tmp_path / "page.txt"
    path.write_text(PAGES[engine])
    ask = [word for word in ASK if word not in ("--context", "4k")]
    run(["validate", "engine", "--watch", str(path), *ask, "--engine", engine])
    out = " ".join(capsys.readouterr().out.split())
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    question = {"batch": 8, "context": 4096, "tp": 2, "draft": "eagle3", "gamma": 1}
    cache = whatif("qwen3-32b", "h100", **question).kv_cache
    assert context == (9000 if engine == "sglang" else pytest.approx(0.05 * cache.kv_tokens / 8, abs=0.5))
    assert f"K = {length}" in out


def test_the_used_parts_of_all_ranks_of_a_page_count_together(tmp_path, capsys) -> None:
    """Eight requests use 5 % of one cache, or 2 and 3 % of the caches of two ranks."""
    counters = PAGES["vllm"].partition("running 8\n")[2]
    ranks = ""
    for rank, (used, requests) in enumerate(((0.02, 3), (0.03, 5))):
        label = f'{{engine="{rank}"}}'
        ranks += f"vllm:kv_cache_usage_perc{label} {used}\nvllm:num_requests_running{label} {requests}\n"
    contexts = []
    for text in (PAGES["vllm"], ranks + counters):
        path = tmp_path / "page.txt"
        path.write_text(text)
        run(["validate", "engine", "--watch", str(path), *[w for w in ASK if w not in ("--context", "4k")]])
        out = " ".join(capsys.readouterr().out.split())
        contexts.append(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert contexts[0] == contexts[1]


def test_lines_of_vllm_0_8_need_the_draft_length(tmp_path, capsys) -> None:
    line = "SpecDecoding metrics: Draft acceptance rate: 51.7%, Accepted: 1550 tokens, Drafted: 3000 tokens\n"
    assert watched(tmp_path, capsys, line)[1].startswith("error: --gamma: must be given")
    assert "2.55 tokens per iteration" in watched(tmp_path, capsys, line, "--gamma", "3")[1]


def test_a_log_without_the_size_of_its_cache_has_the_predicted_one(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    path.write_text(vllm_log(predicted_tokens_per_s()))
    ask = [word for word in ASK if word not in ("--context", "4k")]
    run(["validate", "engine", "--watch", str(path), *ask])
    out = " ".join(capsys.readouterr().out.split())
    cache = whatif("qwen3-32b", "h100", batch=8, context=4096, tp=2, draft="eagle3", gamma=3).kv_cache
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert context == pytest.approx(0.04 * cache.kv_tokens / 8, abs=0.5), "the draft takes memory too"
    assert "health: healthy" in out


def test_the_size_of_a_cache_is_compared_with_the_predicted_one(tmp_path, capsys) -> None:
    path = tmp_path / "start.log"
    cache = whatif("qwen3-32b", "h100", batch=1, context=4096, tp=2, draft="eagle3", gamma=3).kv_cache
    config = "speculative_config=SpeculativeConfig(method='eagle3', num_spec_tokens=3), quantization=fp8"
    ask = ["validate", "engine", *[word for word in ASK if word not in ("--context", "4k")]]
    for line in (f"GPU KV cache size: {cache.kv_tokens:,} tokens", f"max_total_num_tokens={cache.kv_tokens}"):
        path.write_text(f"INFO {config}\nINFO {line}\n")
        assert run([*ask, "--from", str(path)]) == 0
        out = " ".join(capsys.readouterr().out.split())
        words = f"{cache.kv_tokens:,} tokens in the log; predicted {cache.kv_tokens:,} (1.00 times)"
        assert f"KV cache: {words}" in out
        assert "warning: the log has fp8 weights" in out
    _, watching = watched(tmp_path, capsys, vllm_log(100.0, first="GPU KV cache size: 1,000 tokens"))
    assert "KV cache: 1,000 tokens in the log; predicted" in watching


def test_a_rank_has_its_own_part_of_the_predicted_cache(tmp_path, capsys) -> None:
    """Requests, used share and size in a log are those of each of eight data-parallel ranks."""
    path = tmp_path / "server.log"
    ask = ["validate", "engine", "--watch", str(path), "--model", "deepseek-r1", "--hardware", "h200"]
    ask += ["--tp", "8", "--dp", "8", "--ep", "8", "--draft", "mtp"]
    layout = {"tp": 8, "dp": 8, "ep": 8, "draft": "mtp", "gamma": 3}
    of_rank = whatif("deepseek-r1", "h200", batch=64, context=4096, **layout).kv_cache.kv_tokens / 8
    path.write_text(vllm_log(100.0))
    run(ask)
    out = " ".join(capsys.readouterr().out.split())
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert context == pytest.approx(0.04 * of_rank / 8, abs=0.5)
    path.write_text(vllm_log(100.0, first="GPU KV cache size: 1,000 tokens"))
    run([*ask, "--context", "4k"])
    out = " ".join(capsys.readouterr().out.split())
    assert f"KV cache: 1,000 tokens in the log; predicted {of_rank:,.0f} (" in out


def test_usual_prompts_are_the_load_where_requests_wait(tmp_path, capsys) -> None:
    log = vllm_log(predicted_tokens_per_s() / 1.5, waiting=3)
    _, out = watched(tmp_path, capsys, log.replace("prompt throughput: 0.0", "prompt throughput: 2500.0"))
    assert "health: the load is off" in out


def test_a_predicted_backend_without_a_word_in_logs_has_its_own_name(tmp_path, capsys) -> None:
    line = "server_args=ServerArgs(attention_backend='triton')"
    log = sglang_log(2.8, (2.8 - 1) / 5).replace("400.00", "40.00")
    _, out = watched(tmp_path, capsys, f"{line}\n{log}", "--engine", "sglang", "--hardware", "b200")
    assert "runs on triton, and trtllm was predicted" in out


def test_what_the_log_says_of_the_server_is_compared_with_the_question(tmp_path, capsys) -> None:
    config = "Initializing a V1 LLM engine (v0.20.1) with config: {}"
    same = config.format("tensor_parallel_size=2, quantization=None, kv_cache_dtype=auto")
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(), first=same))
    assert "version: vLLM 0.20.1, as the log says" in out
    assert "warning" not in out
    other = config.format("tensor_parallel_size=4, quantization=fp8, kv_cache_dtype=fp8_e4m3")
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(), first=other))
    assert "warning: the log has 4 tensor-parallel devices, and 2 was asked: --tp 4" in out
    assert "warning: the log has fp8 weights, and bf16 are assumed: --weights fp8" in out
    assert "--kv-dtype fp8" in out
    _, named = watched(tmp_path, capsys, vllm_log(100.0, first=same), "--engine", "vllm")
    assert "as the log says" not in named
