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
        "cuda_graph_config: null",
        "engine args: enforce_eager=True",
        "vllm serve Q/W --enforce-eager",
        "python -m sglang.launch_server --disable-cuda-graph --tp 2",
        "device_config=cuda, compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>}",
        'device_config=cuda, compilation_config={"level":3,"cudagraph_mode":0,"use_cudagraph":true}',
        "Overriding cudagraph_mode from FULL to NONE",
        """--compilation-config '{"cudagraph_mode": "NONE"}'""",
    ),
    "CUDA graphs are piecewise": (
        "'cudagraph_mode': <CUDAGraphMode.PIECEWISE: 1>",
        "compilation_config={cudagraph_mode=PIECEWISE}",
        "Overriding cudagraph_mode from FULL to PIECEWISE",
        'compilation_config={"level":3,"cudagraph_mode":1,"use_cudagraph":true}',
        """--compilation-config '{"cudagraph_mode": "PIECEWISE"}'""",
    ),
    "asynchronous scheduling is off": (
        "Async scheduling is not compatible with ngram",
        "Async scheduling not supported with pipeline parallelism",
        "Asynchronous scheduling will be disabled",
        "Asynchronous scheduling is disabled",
        "vllm serve Q/W --no-async-scheduling",
    ),
    "flash attention is off": (
        "llama_context: flash_attn    = 0",
        "llama_context: flash_attn    = disabled",
        "Flash Attention was auto, set to disabled",
        "llama-server --flash-attn off",
        "llama-bench -fa 0",
    ),
    "requests are preempted": (
        "Sequence group 7 is preempted by mode RECOMPUTE",
        "Running: 8 reqs, Preemptions: 3",
        "KV cache pool is full. Retract requests. #retracted_reqs: 1",
        "Retract requests",
        "KV cache pool is full",
    ),
    "requests were preempted while this page counted": (
        'vllm:num_preemptions_total{engine="0",model_name="m"} 431.0',
        'sglang:num_retracted_requests_total{model_name="m"} 12.0',
    ),
    "the overlap of host and device is off": (
        "Overlap scheduler is disabled because of speculative decoding",
        "server_args=ServerArgs(disable_overlap_schedule=True)",
        "python -m sglang.launch_server --disable-overlap-schedule",
        "disable_overlap_scheduler: true",
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
    "the custom all-reduce is off": (
        "Custom allreduce is disabled because your platform lacks GPU P2P capability",
        "vllm serve Q/W --disable-custom-all-reduce",
    ),
    "weights lie in host memory": ("vllm serve Q/W --cpu-offload-gb 0.5", "cpu_offload_gb=10"),
    "the kernels of this weight format are slow ones": (
        "awq quantization is not fully optimized yet. The speed can be slower",
        "Falling back to unoptimized AWQ kernels",
        "Use quantization=awq_marlin for faster inference",
    ),
    "torch.compile is off": ("TORCHDYNAMO_DISABLE=1 vllm serve Q/W", "<CompilationMode.NONE: 0>"),
    "devices exchange data through host memory": (
        "P2P is disabled between two devices",
        "P2P access is not available",
        "P2P not supported on this machine",
        "NCCL_P2P_DISABLE=1 vllm serve Q/W",
    ),
    "18 % of the model run on the host": ("gpt-oss:20b  aa42  14 GB  18%/82% CPU/GPU  8192  4 minutes",),
    "100 % of the model run on the host": ("qwen3:32b  aa42  22 GB  100% CPU  8192  4 minutes",),
    "LoRA adapters are on": ("vllm serve Q/W --enable-lora", "--lora-paths a=b", "enable_lora=True"),
}
"""Start of the meaning -> lines and flags with this meaning."""


@pytest.mark.parametrize(("meaning", "line"), [(each, line) for each in SIGNS for line in SIGNS[each]])
def test_every_form_of_a_sign_is_known(meaning: str, line: str) -> None:
    assert [sign.meaning[: len(meaning)] for sign in signs_in(line)] == [meaning]


@pytest.mark.parametrize(
    "line",
    [
        "Using 'enforce_eager=True' disables CUDA graphs",
        "consider '--enforce-eager'",
        "--disable-cuda-graph-padding",
        "cpu_offload_gb=0",
        "Running: 8 reqs, Preemptions: 0",
        'vllm:num_preemptions_total{engine="0"} 0.0',
        'sglang:is_cuda_graph{model_name="m"} 0.0',  # SGLang 0.5.23 never sets it
        'compilation_config={"level":3,"cudagraph_mode":[2,1]}',
        "device_config=cpu, compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>}",
        "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>",
        "Overlap scheduler is enabled",
        "qwen3:8b  aa42  6 GB  100% GPU  8192  4 minutes",
    ],
)
def test_advice_other_flags_and_zeros_are_no_signs(line: str) -> None:
    assert signs_in(line) == []


@pytest.mark.parametrize("between", ["by", "with"])
def test_a_draft_that_is_not_supported_is_named(between: str) -> None:
    line = f"speculative decoding not supported {between} multimodal"
    assert refused_draft(line).endswith("not supported by multimodal")
