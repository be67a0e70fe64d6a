"""Text in the logs of engines that explains why a server is slow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Half(Enum):
    """The part of a server that differs from the prediction.

    - `OPEN`: not decided, because the server was partly idle in all intervals of the log.
    """

    NONE = "healthy"
    OPEN = "not decided"
    ACCEPTANCE = "the acceptance is off"
    STEP = "the iteration is off"
    LOAD = "the load is off"


@dataclass(frozen=True, slots=True)
class Sign:
    """Text in a log that explains why a server is slow.

    - half: the part whose difference from the prediction the text explains: the acceptance, the iteration or
      the load.
    - decides: whether this text alone shows that this part is slow, because the logs of most servers do not
      have it.
    """

    pattern: re.Pattern[str]
    half: Half
    meaning: str
    decides: bool = True


SIGNS = (
    Sign(
        re.compile(
            r"(?<!')enforce_eager=True|'enforce_eager': True|(?<!['`])--enforce-eager\b|Enforce eager set"
            r"|[Cc]udagraph is disabled|C(?i:uda) graph is disabled|Decode batch.*cuda graph: False"
            r"|disable_cuda_graph['\"]?[=:]\s*True|--disable-cuda-graph(?![-\w])"
            r"|\bcuda_graph_config['\"]?[=:]\s*(?:None|null)"
            r"|device_config=cuda\b[^\n]*cudagraph_mode['\"]?[=:] ?(?:<CUDAGraphMode\.NONE|0\b)"
            r"|cudagraph_mode (?:from )?\S+ to NONE|cudagraph_mode['\"]?(?:=|: *)['\"]?NONE"
        ),
        Half.STEP,
        "CUDA graphs are off (eager mode): the host launches every kernel",
    ),
    Sign(
        re.compile(
            r"CUDAGraphMode\.PIECEWISE|cudagraph_mode (?:from \S+ )?to PIECEWISE"
            r"|cudagraph_mode['\"]?(?:=|: *)['\"]?(?:(?:CUDAGraphMode\.)?PIECEWISE|1\b)"
        ),
        Half.STEP,
        "CUDA graphs are piecewise: the host launches the attention of every layer",
    ),
    Sign(
        re.compile(
            r"Async(?:hronous)? scheduling (?:is disabled|is not compatible|not supported|will be disabled)"
            r"|--no-async-scheduling"
        ),
        Half.STEP,
        "asynchronous scheduling is off: the device waits while the host prepares a pass",
    ),
    Sign(
        re.compile(r"no usable GPU found"),
        Half.STEP,
        "llama.cpp found no GPU: the processor runs all layers",
    ),
    Sign(
        re.compile(
            r"flash_attn\s+= (?:0|disabled)|Flash Attention was auto, set to disabled"
            r"|(?:-fa|--flash-attn)[ =](?:0|off)\b"
        ),
        Half.STEP,
        "flash attention is off",
    ),
    Sign(
        re.compile(r"preempted|Preemptions: [1-9]|Retract requests|KV cache pool is full"),
        Half.LOAD,
        "requests are preempted: the KV cache is full",
    ),
    Sign(
        re.compile(
            r"^(?:vllm:num_preemptions|sglang:num_retracted_requests)(?:_total)?(?:\{[^\n]*\})? (?!0)\d", re.M
        ),
        Half.LOAD,
        "requests were preempted while this page counted: the KV cache was full",
        decides=False,
    ),
    Sign(
        re.compile(
            r"[Oo]verlap schedul\w+ is disabled|disable_overlap_schedule['\"]?[=:]\s*True"
            r"|--disable-overlap-schedule|disable_overlap_scheduler['\"]?[=:]\s*[Tt]rue"
        ),
        Half.STEP,
        "the overlap of host and device is off: the device waits while the host prepares a pass",
        decides=False,
    ),
    Sign(
        re.compile(r"[Cc]ustom all-?reduce is disabled|--disable-custom-all-reduce"),
        Half.STEP,
        "the custom all-reduce is off (no links between the devices): every layer waits for NCCL",
        decides=False,
    ),
    Sign(
        re.compile(r"does not have native support for FP[48]|Weight-only FP[48] compression will be used"),
        Half.STEP,
        "the device has no kernels for this format: weights are converted in every product",
        decides=False,
    ),
    Sign(
        re.compile(
            r"Using default (?:W8A8 Block )?(?:FP8 )?(?:MoE|fused MoE|MoE kernel|kernel) config", re.I
        ),
        Half.STEP,
        "the kernels of experts have no tuned configuration for this device",
        decides=False,
    ),
    Sign(
        re.compile(r"cpu[_-]offload[_-]gb['\"]?[=: ]\s*(?=[\d.]*[1-9])[\d.]+"),
        Half.STEP,
        "weights lie in host memory",
    ),
    Sign(
        re.compile(r"CompilationMode\.NONE|TORCHDYNAMO_DISABLE=1"),
        Half.STEP,
        "torch.compile is off: small operations are not fused",
    ),
    Sign(
        re.compile(r"NCCL_P2P_DISABLE=1|P2P is disabled|P2P (?:access )?(?:is )?not (?:available|supported)"),
        Half.STEP,
        "devices exchange data through host memory (P2P is off)",
        decides=False,
    ),
    Sign(
        re.compile(r"disabling CUDA graphs due to"),
        Half.STEP,
        "llama.cpp launches kernels without CUDA graphs",
        decides=False,
    ),
    Sign(
        re.compile(r"not compiled with GPU offload support"),
        Half.STEP,
        "llama.cpp was built without support for the device",
    ),
    Sign(
        re.compile(r"buffer type overridden to CPU\b"),
        Half.STEP,
        "tensors of experts or layers lie in host memory (--cpu-moe)",
    ),
    Sign(
        re.compile(
            r"quantization is not fully optimized yet|Falling back to unoptimized AWQ kernels"
            r"|Use quantization=\w+_marlin for faster inference"
        ),
        Half.STEP,
        "the kernels of this weight format are slow ones",
    ),
    Sign(
        re.compile(r"falling back to (?:the )?Transformers", re.I),
        Half.STEP,
        "the engine does not know the model and runs the code of transformers",
    ),
    Sign(
        re.compile(r"WSL is detected"),
        Half.STEP,
        "the server runs in WSL: copies between host and device are slower",
        decides=False,
    ),
    Sign(
        re.compile(r"enable_lora['\"]?[=:]\s*True|--enable-lora\b|--lora-paths\b"),
        Half.STEP,
        "LoRA adapters are on, whose time is not predicted",
        decides=False,
    ),
    Sign(
        re.compile(r"tokens will be translated between the draft and target"),
        Half.ACCEPTANCE,
        "draft and target have different vocabularies: drafts are translated as text",
        decides=False,
    ),
    Sign(
        re.compile(r"forcing full prompt re-processing"),
        Half.LOAD,
        "the whole prompt is read again in every turn: the cache cannot go back (sliding windows, recurrent "
        "layers)",
    ),
    Sign(
        re.compile(r"[Mm]ax_?\s?running_?\s?requests is reset to \d+ for speculative"),
        Half.LOAD,
        "the server takes fewer requests at once because it speculates",
        decides=False,
    ),
)
"""Log lines of vLLM (config and scheduler), SGLang (server_args, decode lines, retraction) and llama.cpp, and
flags of their servers, and counters on their pages of metrics.
"""
_NO_DRAFT = re.compile(r"speculative decoding (?:is )?not supported (?:by|with) (?P<by>\w+(?: \w+)?)", re.I)
"""A line of llama.cpp that says that it decodes without the draft. It ends in ``by multimodal`` or ``by this
context``.
"""
_OLLAMA = re.compile(r"\b([1-9]\d?)%/\d+% CPU/GPU\b|\b(100)% CPU\b")
"""The shares of a model on the host and on the device, as `ollama ps` prints them."""
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")


def signs_in(text: str) -> list[Sign]:
    """All signs of a slow server in a log."""
    return [*_signs(text), *_on_host(text), *_of_ollama(text)]


def refused_draft(text: str) -> str:
    """A sentence that says that the server decodes without its draft, and why, according to the log. Empty if
    the log does not say so.
    """
    line = _NO_DRAFT.search(text)
    if line is None:
        return ""
    return f"the server decodes without its draft: its log says: not supported by {line['by']}"


def _signs(text: str) -> Iterator[Sign]:
    return (sign for sign in SIGNS if sign.pattern.search(text))


def _on_host(text: str) -> Iterator[Sign]:
    """A sign if llama.cpp left layers to the host."""
    printed = _OFFLOADED.search(text)
    if printed is None:
        return
    offloaded, layers = map(int, printed.groups())
    if offloaded < layers:
        on_host = layers - offloaded
        yield Sign(_OFFLOADED, Half.STEP, f"{on_host} of {layers} layers run on the host (--gpu-layers)")


def _of_ollama(text: str) -> Iterator[Sign]:
    """A sign if Ollama left a part of the model to the host."""
    printed = _OLLAMA.search(text)
    if printed is not None:
        share = printed[1] or printed[2]
        yield Sign(_OLLAMA, Half.STEP, f"{share} % of the model run on the host (ollama ps)")
