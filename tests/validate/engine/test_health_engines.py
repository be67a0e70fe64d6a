"""The health check of servers without a draft, by logs and pages of each engine."""

from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run
from tests.validate.engine.health_logs import plain_log

LLAMA = {"weights": "q4_k_m", "engine": "llamacpp"}
ON_HOST = "load_tensors: offloaded 48/65 layers to GPU\n"


def llama_log(step_s: float, first: str = "") -> str:
    """Three answers of 501 tokens behind prompts of 3,750."""
    answer = (
        "prompt eval time = 4100.00 ms / 3750 tokens ( 1.09 ms per token, 914.63 tokens per second)\n"
        f"       eval time = {501e3 * step_s:.2f} ms / 501 tokens ( 1.00 ms per token)\n"
    )
    return first + answer * 3


def trtllm_log(step_s: float, requests: int = 8, tokens: int = 8) -> str:
    line = (
        "[TRT-LLM] [RANK 0] [I] iter = {}, global_rank = 0, rank = 0, currank_total_requests = 0/0, "
        f"host_step_time = {1e3 * step_s:.3f}ms, prev_device_step_time = 1.0ms, "
        f"num_scheduled_requests: {requests}, states = {{{{'num_ctx_requests': 0, 'num_ctx_tokens': 0, "
        f"'num_generation_tokens': {tokens}}}}}\n"
    )
    return "".join(map(line.format, range(6)))


def sglang_page(tokens_per_s: float, accept_length: float = 0.0) -> str:
    """48 running requests of 2,200 tokens. The page has gauges of drafts also without a draft."""
    gauges = {
        "num_running_reqs": 48.0,
        "num_used_tokens": 48 * 2200.0,
        "gen_throughput": tokens_per_s,
        "num_queue_reqs": 0.0,
        "spec_accept_length": accept_length,
        "spec_accept_rate": 0.0,
    }
    return "".join(f'sglang:{name}{{tp_rank="0"}} {value}\n' for name, value in gauges.items())


def watched(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, ask: str) -> tuple[int, str]:
    path = tmp_path / "server.log"
    path.write_text(text)
    status = run(["validate", "engine", "--watch", str(path), *ask.split()])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize(
    ("times", "first", "half", "why"),
    [
        (1.0, "", "healthy", ""),
        (3.2, ON_HOST, "the iteration is off", "17 of 65 layers run on the host (--gpu-layers)"),
    ],
)
def test_a_log_of_llama_server_is_compared_with_the_baseline(
    tmp_path, capsys, times, first, half, why
) -> None:
    """The first token of an answer comes from the prompt's pass."""
    step_s = whatif("qwen3-32b", "rtx-3090", batch=1, context=4001, gamma=0, draft="ngram", **LLAMA).ar_tpot_s
    ask = "--model qwen3-32b --hardware rtx-3090 --weights q4_k_m"
    status, out = watched(tmp_path, capsys, llama_log(times * step_s, first), ask)
    assert "engine: llama.cpp, as the text shows" in out
    assert "requests: 1 running, at 4000 tokens of context; no drafts" in out
    assert f"health: {half}: measured" in out
    assert why in out
    assert status == (0 if half == "healthy" else 1)


TRTLLM = "--model llama-3.3-70b --hardware b200 --tp 2 --weights nvfp4"


def test_a_log_of_tensorrt_llm_is_compared_with_the_baseline(tmp_path, capsys) -> None:
    served = {"weights": "nvfp4", "engine": "trtllm", "tp": 2, "draft": "ngram"}
    step_s = whatif("llama-3.3-70b", "b200", batch=8, context=2000, gamma=0, **served).ar_tpot_s
    log = "PyTorchConfig(disable_overlap_scheduler=True)\n" + trtllm_log(2.0 * step_s)
    status, out = watched(tmp_path, capsys, log, f"{TRTLLM} --context 2000")
    assert status == 1
    assert "requests: 8 running, at 2000 tokens of context; no drafts" in out
    assert "health: the iteration is off" in out
    assert "seen in the log: the overlap of host and device is off" in out
    status, out = watched(tmp_path, capsys, log, TRTLLM)
    assert status == 2
    assert "--context N" in out


def test_steps_that_verify_drafts_need_their_counts(tmp_path, capsys) -> None:
    status, out = watched(tmp_path, capsys, trtllm_log(0.02, tokens=32), f"{TRTLLM} --context 2000")
    assert status == 2
    assert "has steps with drafts, and no counts of them; use --from" in out


def test_a_page_of_sglang_without_drafts_is_compared_with_the_baseline(tmp_path, capsys) -> None:
    served = {"weights": "fp8", "engine": "sglang", "tp": 2, "draft": "ngram"}
    step_s = whatif("llama-3.3-70b", "mi300x", batch=48, context=2200, gamma=0, **served).ar_tpot_s
    ask = "--model llama-3.3-70b --hardware mi300x --tp 2 --weights fp8"
    status, out = watched(tmp_path, capsys, sglang_page(48 / step_s), ask)
    assert status == 0
    assert "engine: SGLang, as the text shows" in out
    assert "requests: 48 running, at 2200 tokens of context; no drafts" in out
    assert "health: healthy" in out
    _, drafting = watched(tmp_path, capsys, sglang_page(48 / step_s, accept_length=2.5), ask)
    assert "--draft: must be given" in drafting


def test_the_variable_that_selects_the_predicted_backend_is_named(tmp_path, capsys) -> None:
    log = "INFO Using Triton Attention backend on V1 engine.\n" + plain_log(100.0)
    _, out = watched(tmp_path, capsys, log, "--model qwen3-32b --hardware mi300x --engine vllm")
    assert "runs on TRITON_ATTN, and ROCM_AITER_FA was predicted (VLLM_ROCM_USE_AITER=1)" in out


def test_the_format_of_some_parts_is_no_difference(tmp_path, capsys) -> None:
    """The experts of gpt-oss are in MXFP4, and the log names only this format."""
    log = "Initializing a V1 LLM engine (v0.20.1) with config: quantization={}\n" + plain_log(400.0)
    ask = "--model gpt-oss-120b --hardware h100 --tp 1"
    assert "warning: the log has" not in watched(tmp_path, capsys, log.format("mxfp4"), ask)[1]
    assert "warning: the log has fp8 weights" in watched(tmp_path, capsys, log.format("fp8"), ask)[1]
