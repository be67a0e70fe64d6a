"""The memory of a device that serving engines use themselves, from ``hardware/memory/<engine>.yaml``."""

from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text

Size = Annotated[float, Meta(ge=0, le=1e6)]
FOLDER = "memory"


class BatchedTokens(Frozen):
    """Default token budget of a pass, by the reported memory of the device. never_large: word in the names of
    devices that always get `usual`.
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
    """Peak memory of activations in vLLM's profile run.

    inner, hidden: number of 2-byte values per token, divided by the intermediate size and by the hidden
    size. logit_bytes: bytes of the sampler for each sequence and vocabulary entry. flashinfer_logit_bytes:
    the same for FlashInfer's sampler on NVIDIA devices. chunked_above: the pass is as long as the longest
    sequence, up to this length; beyond it, on NVIDIA devices, it has `chunked_tokens`. None: the pass has
    as many tokens as the token budget. windows: whether sliding layers keep only their window.
    outside_gib: memory outside PyTorch.
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
    """Additional memory outside PyTorch: for several devices, for `many_devices` with device links, for
    MLA, and if the host uses the same memory.
    """

    devices_gib: Size
    many_devices_gib: Size
    many_devices: Positive
    latent_gib: Size
    shared_memory_gib: Size
    source: Text


class Vision(Frozen):
    """The vision tower of models of these types: its weights, and its activations in passes from a number of
    tokens on.
    """

    model_types: tuple[str, ...]
    weights_gib: Size
    pass_gib: Size
    from_tokens: Positive
    source: Text


class Graphs(Frozen):
    """Memory of CUDA graphs, by the kind of layers in the model. since: first version that subtracts it.
    draft_factor: factor on it with a draft.
    """

    since: str
    usual_gib: Size
    sliding_gib: Size
    recurrent_gib: Size
    sparse_latent_gib: Size
    draft_factor: Size
    source: Text


class PaddedExperts(Frozen):
    """Experts of one format, whose hidden (`outer`) and intermediate (`inner`) sizes are rounded up to these
    multiples.
    """

    format: str
    outer: Positive
    inner: Positive
    source: Text


class ChunkedAttention(Frozen):
    """Models whose layers of chunked attention keep all tokens."""

    model_types: tuple[str, ...]
    source: Text


class VLLMMemory(Frozen):
    """``hardware/memory/vllm.yaml``. Tables are by version. state_copies: number of recurrent states per
    sequence without a draft. uneven_windows_since: first version whose sliding layers keep only their
    window even if their heads have another size than those of other layers.
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
    """Defaults of SGLang on devices with less than `below_gib` of memory. graph_batch_many: replaces
    graph_batch on many devices.
    """

    below_gib: Size
    prefill_tokens: Positive
    graph_batch: Positive
    graph_batch_many: Positive


class SGLangMemory(Frozen):
    """``hardware/memory/sglang.yaml``. state_share: memory of recurrent states divided by that of KV
    caches. state_slots: first version -> states of a running request, including those of its prefixes and
    of a pass in preparation. sliding_share: tokens in the pool of sliding layers divided by those in the
    pool of other layers. vision_factor: factor on the default share for models with a vision tower.
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
    """``hardware/memory/llamacpp.yaml``: the compute buffer (the logits of a micro-batch, and the rest),
    and the memory that remains free.
    """

    source: Text
    ubatch: Positive
    logit_bytes: Size
    rest_mib: Size
    recurrent_rest_mib: Size
    margin_mib: Size


@cache
def vllm_memory() -> VLLMMemory:
    """The memory that vLLM uses."""
    return files.load_bundled(VLLMMemory, FOLDER, "vllm")


@cache
def sglang_memory() -> SGLangMemory:
    """The memory that SGLang uses."""
    return files.load_bundled(SGLangMemory, FOLDER, "sglang")


@cache
def llamacpp_memory() -> LlamaCppMemory:
    """The memory that llama.cpp uses."""
    return files.load_bundled(LlamaCppMemory, FOLDER, "llamacpp")
