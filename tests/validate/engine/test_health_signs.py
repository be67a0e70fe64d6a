"""Lines in the log of a slow server that explain it, and those that explain nothing."""

import pytest

from tests.validate.engine.health_logs import (
    predicted_tokens_per_s,
    sglang_log,
    vllm_log,
    watched,
)

USUAL = {
    "the custom all-reduce is off": "Custom allreduce is disabled because it is not supported on more than "
    "two PCIe-only GPUs.",
    "the server takes fewer requests": "max_running_requests is reset to 48 for speculative decoding.",
}
"""Meaning of a sign that many servers have, and their line."""


def test_more_requests_than_sglang_captured_are_named(tmp_path, capsys) -> None:
    log = "server_args=ServerArgs(cuda_graph_max_bs=2)\n" + sglang_log(2.8, (2.8 - 1) / 5).replace(
        "400.00", "40.00"
    )
    _, out = watched(tmp_path, capsys, log, "--engine", "sglang")
    assert "an iteration has 4 requests, and the largest captured CUDA graph 2" in out


@pytest.mark.parametrize(
    ("version", "seen"),
    [("0.9.2", False), ("0.11.0", True), ("0.22.0", False), ("0.32.0", False)],
)
def test_the_largest_graph_of_vllm_follows_from_version_and_seats(tmp_path, capsys, version, seen) -> None:
    """Twice the requests in 0.10 and 0.11, twice their tokens from 0.32 on; the others were not read."""
    first = f"Initializing a V1 LLM engine (v{version}) with config: model='x', max_num_seqs=8"
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s() / 2.5, first=first))
    graph = "the largest CUDA graph that is captured by default"
    assert (graph in out) == seen
    assert (f"an iteration has 32 tokens, and {graph} for 8 requests at once 16" in out) == seen


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
        ("INFO Using AttentionBackendEnum.FLEX_ATTENTION backend.", "runs on FLEX_ATTENTION, and FLASH_ATTN"),
        ("INFO Using FlexAttention backend on V1 engine.", "runs on FLEX_ATTENTION, and FLASH_ATTN"),
        ("INFO Using FlexAttention backend for head_size=80 on V1 engine.", "runs on FLEX_ATTENTION"),
        ("INFO Using Triton backend on V1 engine.", "runs on TRITON_ATTN, and FLASH_ATTN was predicted"),
        ("INFO Using Flash Attention backend on V1 engine.", "nothing that explains"),
        ("WARNING Using default MoE kernel config. Performance might be sub-optimal!", "no tuned config"),
        ("blk.3.ffn_up_exps.weight (96 MiB q4_K) buffer type overridden to CPU", "lie in host memory"),
        ("WARNING gguf quantization is not fully optimized yet. The speed can be", "format are slow ones"),
        ("so forcing gptq. Use quantization=gptq_marlin for faster inference", "format are slow ones"),
        ("Layer 'a' is not supported by AWQMarlin. Falling back to unoptimized AWQ kernels.", "slow ones"),
        (
            "A has no vLLM implementation, falling back to Transformers implementation.",
            "code of transformers",
        ),
        ("Using 'pin_memory=False' as WSL is detected. This may slow down", "runs in WSL"),
        ("non-default args: {'enable_lora': True}", "LoRA adapters are on"),
        ("server_args=ServerArgs(enable_lora=None)", "nothing that explains"),
        ("tokens will be translated between the draft and target models.", "nothing that explains"),
        ("load_tensors: offloaded 65/65 layers to GPU", "nothing that explains"),
    ],
)
def test_known_lines_of_a_slow_server_are_named(tmp_path, capsys, line: str, says: str) -> None:
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s() / 4, first=line))
    assert "health: the iteration is off" in out
    assert says in out


def test_vocabularies_that_differ_explain_rejected_drafts_and_no_slow_step(tmp_path, capsys) -> None:
    line = "tokens will be translated between the draft and target models."
    bad = (0.15, 0.07, 0.03)
    rejected = vllm_log(predicted_tokens_per_s(bad), rates=bad, first=line)
    _, out = watched(tmp_path, capsys, rejected)
    assert "health: the acceptance is off" in out
    assert "seen in the log: draft and target have different vocabularies" in out


def test_a_log_of_a_server_that_dropped_its_draft_says_so(tmp_path, capsys) -> None:
    for words, says in (
        ("srv: speculative decoding not supported by this context", "not supported by this context"),
        ("speculative decoding is not supported by multimodal, it will", "not supported by multimodal"),
    ):
        log = "eval time = 5512.01 ms / 200 tokens (27.56 ms per token)"
        status, out = watched(tmp_path, capsys, f"{words}\n{log}\n", "--engine", "llamacpp")
        assert status == 2
        assert f"the server decodes without its draft: its log says: {says}" in out


@pytest.mark.parametrize("meaning", USUAL)
def test_a_sign_that_many_servers_have_decides_nothing(tmp_path, capsys, meaning: str) -> None:
    slow = predicted_tokens_per_s() / 4
    _, loaded = watched(tmp_path, capsys, vllm_log(slow, waiting=20, first=USUAL[meaning]))
    assert "health: the load is off" in loaded
    _, alone = watched(tmp_path, capsys, vllm_log(slow, first=USUAL[meaning]))
    assert "health: the iteration is off" in alone
    assert f"seen in the log: {meaning}" in alone


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
