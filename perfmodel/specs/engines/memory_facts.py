"""The device memory that serving engines use themselves, from ``hardware/memory/<engine>.yaml``."""

from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text

Size = Annotated[float, Meta(ge=0, le=1e6)]
FOLDER = "memory"


class BatchedTokens(Frozen):
    """The default token budget of a pass, by the reported memory of the device.

    - never_large: a word in the names of devices that always get the budget `usual`.
    """

    usual: Positive
    large: Positive
    large_from_gib: Size
    never_large: str
    huge: Positive
    huge_from_gib: Size
    huge_since: str
    source: Text


class Activation(Frozen):
    """The peak memory of activations in vLLM's profiling run.

    - inner, hidden: number of 2-byte values per token, as a multiple of the intermediate size and of the
      hidden size.
    - logit_bytes: bytes that the sampler needs per sequence and vocabulary entry.
    - flashinfer_logit_bytes: the same for FlashInfer's sampler on NVIDIA devices.
    - chunked_above: up to this length, the pass has as many tokens as the longest sequence. Above it, the
      pass has `chunked_tokens` tokens on NVIDIA devices. None means that the pass has as many tokens as the
      token budget.
    - windows: whether sliding-window layers store only their window.
    - outside_gib: memory outside PyTorch, in GiB.
    """

    inner: Size
    hidden: Size
    logit_bytes: Size
    flashinfer_logit_bytes: Size | None = None
    chunked_above: Positive | None = None
    chunked_tokens: Positive = 1
    windows: bool = True
    outside_gib: Size


class Outside(Frozen):
    """Additional memory outside PyTorch, in GiB. Each field has the memory for one condition: several
    devices, at least `many_devices` devices with device links, MLA, or a host that uses the same memory.
    """

    devices_gib: Size
    many_devices_gib: Size
    many_devices: Positive
    latent_gib: Size
    shared_memory_gib: Size
    source: Text


class Vision(Frozen):
    """The memory of the vision tower for models of these types: its weights, and its activations in passes
    with at least `from_tokens` tokens.
    """

    model_types: tuple[str, ...]
    weights_gib: Size
    pass_gib: Size
    from_tokens: Positive
    source: Text


class Graphs(Frozen):
    """The memory of CUDA graphs in GiB, by the kind of layers in the model.

    - since: first version of vLLM that subtracts this memory.
    - draft_factor: factor on this memory if there is a draft.
    """

    since: str
    usual_gib: Size
    sliding_gib: Size
    recurrent_gib: Size
    sparse_latent_gib: Size
    draft_factor: Size
    source: Text


class PaddedExperts(Frozen):
    """Experts of one weight format whose sizes are rounded up. The hidden size becomes a multiple of `outer`,
    the intermediate size a multiple of `inner`.
    """

    format: str
    outer: Positive
    inner: Positive
    source: Text


class ChunkedAttention(Frozen):
    """Models whose chunked-attention layers store all tokens in the cache."""

    model_types: tuple[str, ...]
    source: Text


class VLLMMemory(Frozen):
    """The contents of ``hardware/memory/vllm.yaml``. The keys of tables are the first versions to which their
    values apply.

    - state_copies: number of recurrent states per sequence if there is no draft.
    - uneven_windows_since: first version whose sliding-window layers store only their window even if their
      heads have another size than the heads of other layers.
    """

    source: Text
    fraction: dict[str, Share]
    batched_tokens: BatchedTokens
    block: Positive
    state_copies: dict[str, Positive]
    activation: dict[str, Activation]
    outside: Outside
    vision: Vision
    uneven_windows_since: str
    chunked: ChunkedAttention
    graphs: Graphs
    padded_experts: PaddedExperts


class SizeDefaults(Frozen):
    """Default settings of SGLang on devices with less than `below_gib` GiB of memory.

    - graph_batch_many: the value that replaces graph_batch if there are many devices.
    """

    below_gib: Size
    prefill_tokens: Positive
    graph_batch: Positive
    graph_batch_many: Positive


class SGLangMemory(Frozen):
    """The contents of ``hardware/memory/sglang.yaml``.

    - state_share: memory of recurrent states, divided by the memory of KV caches.
    - state_slots: number of states of a running request, by first version. It includes the states of the
      request's prefixes and of a pass in preparation.
    - sliding_share: number of tokens in the pool of sliding-window layers, divided by that in the pool of
      other layers.
    - vision_factor: factor on the default share of memory, for models with a vision tower.
    """

    source: Text
    tiers: tuple[SizeDefaults, ...]
    many_devices: Positive
    constant_mib: Size
    mib_per_prefill_token: Size
    mib_per_graph_sequence: Size
    mib_per_device: Size
    server_devices: Positive
    mib_per_attention_group_sequence: Size
    large_mib: Size
    large_from_gib: Size
    draft_mib: Size
    draft_model_mib: Size
    draft_inside_since: str
    context_gib: Size
    two_devices_gib: Size
    several_devices_gib: Size
    vision_types: tuple[str, ...]
    vision_factor: Share
    state_share: Size
    state_slots: dict[str, Positive]
    sliding_share: Size


class LlamaCppMemory(Frozen):
    """The contents of ``hardware/memory/llamacpp.yaml``: the size of the compute buffer (the logits of a
    micro-batch, and the rest), and the memory that llama.cpp leaves free.
    """

    source: Text
    ubatch: Positive
    logit_bytes: Size
    rest_mib: Size
    recurrent_rest_mib: Size
    margin_mib: Size


@cache
def vllm_memory() -> VLLMMemory:
    """The bundled facts about vLLM's use of memory."""
    return files.load_bundled(VLLMMemory, FOLDER, "vllm")


@cache
def sglang_memory() -> SGLangMemory:
    """The bundled facts about SGLang's use of memory."""
    return files.load_bundled(SGLangMemory, FOLDER, "sglang")


@cache
def llamacpp_memory() -> LlamaCppMemory:
    """The bundled facts about llama.cpp's use of memory."""
    return files.load_bundled(LlamaCppMemory, FOLDER, "llamacpp")
