"""Every form of a line or flag that explains a slow server."""

import pytest

from perfmodel.validate.engine.signs import refused_draft, signs_in

SIGNS = {
    "CUDA graphs are off": (
        "config: {'enforce_eager': True}",
        "Enforce eager set, overriding optimization level to -O0",
        "Cudagraph is disabled under eager mode",
        "CUDA graph is disabled.",
        "Decode batch, #running-req: 4, cuda graph: False, gen throughput (token/s): 400.00",
        "server_args=ServerArgs(disable_cuda_graph=True)",
        "LLM Args: cuda_graph_config=None",
    ),
    "CUDA graphs are piecewise": (
        "'cudagraph_mode': <CUDAGraphMode.PIECEWISE: 1>",
        "compilation_config={cudagraph_mode=PIECEWISE}",
    ),
    "asynchronous scheduling is off": (
        "Async scheduling is not compatible with ngram",
        "Async scheduling not supported with pipeline parallelism",
        "Asynchronous scheduling will be disabled",
    ),
    "flash attention is off": ("llama_context: flash_attn    = 0", "llama-server --flash-attn off", "-fa 0"),
    "requests are preempted": (
        "Sequence group 7 is preempted by mode RECOMPUTE",
        "Running: 8 reqs, Preemptions: 3",
        "KV cache pool is full. Retract requests. #retracted_reqs: 1",
        "Retract requests",
        "KV cache pool is full",
    ),
    "the overlap of host and device is off": (
        "Overlap scheduler is disabled because of speculative decoding",
        "server_args=ServerArgs(disable_overlap_schedule=True)",
    ),
    "the device has no kernels for this format": (
        "Your GPU does not have native support for FP8 computation",
        "Weight-only FP4 compression will be used leveraging the Marlin kernel",
    ),
    "the kernels of experts have no tuned configuration": (
        "Using default W8A8 Block FP8 kernel config.",
        "Using default fused MoE config.",
        "Using default MoE config.",
    ),
    "torch.compile is off": ("TORCHDYNAMO_DISABLE=1 vllm serve Q/W",),
    "devices exchange data through host memory": (
        "P2P is disabled between two devices",
        "P2P access is not available",
        "P2P not supported on this machine",
    ),
    "LoRA adapters are on": ("vllm serve Q/W --enable-lora", "--lora-paths a=b"),
}
"""Start of the meaning -> lines and flags with this meaning."""


@pytest.mark.parametrize(("meaning", "line"), [(each, line) for each in SIGNS for line in SIGNS[each]])
def test_every_form_of_a_sign_is_known(meaning: str, line: str) -> None:
    assert [sign.meaning[: len(meaning)] for sign in signs_in(line)] == [meaning]


@pytest.mark.parametrize("between", ["by", "with"])
def test_a_draft_that_is_not_supported_is_named(between: str) -> None:
    line = f"speculative decoding not supported {between} multimodal"
    assert refused_draft(line).endswith("not supported by multimodal")
