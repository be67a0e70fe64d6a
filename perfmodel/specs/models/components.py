"""Optional parts of a model and their sizes: experts, a latent, an indexer, recurrent layers, heads."""

from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text

MAX_LAYERS = 10_000
MAX_SIZE = 2**24
MAX_TOKENS = 2**40
Layers = Annotated[int, Meta(ge=0, le=MAX_LAYERS)]
SomeLayers = Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
Number = Annotated[float, Meta(gt=0, le=1e15)]
RopeType = Literal["llama3", "linear", "dynamic", "yarn", "longrope", "proportional"]


class MoE(Frozen):
    """Routed experts (MLPs of `intermediate_size`), shared experts and the dense layers.

    first_dense_layers: number of layers with a dense MLP instead of experts, at any place (first in
    DeepSeek-V3, every second one in Llama-4 Maverick). normalized_weights: the weights of a token's experts
    sum to 1. shared_gate: the shared expert has a gate of one column (Qwen). latent_size: width that experts
    read and write, behind two projections that the experts of a layer share (Nemotron-3 Super).
    """

    num_experts: Size
    experts_per_token: Size
    intermediate_size: Size
    shared_intermediate_size: Annotated[int, Meta(ge=0, le=MAX_SIZE)] = 0
    first_dense_layers: Layers = 0
    normalized_weights: bool = True
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    latent_size: Size | None = None

    def __post_init__(self) -> None:
        if self.experts_per_token > self.num_experts:
            raise ValueError(f"experts_per_token must be at most num_experts ({self.num_experts})")


class MLA(Frozen):
    """Latent attention (DeepSeek-V2/V3): `kv_lora_rank + qk_rope_head_dim` values cached per token and layer.

    unrotated_layers: number of layers without a rotary part, which cache only the latent (Mistral-Large-4).
    """

    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Annotated[int, Meta(ge=0, le=MAX_SIZE)]
    v_head_dim: Size
    unrotated_layers: Layers = 0

    @property
    def latent_dim(self) -> int:
        """Cached values per token and layer."""
        return self.kv_lora_rank + self.qk_rope_head_dim


class Indexer(Frozen):
    """DeepSeek sparse attention: each query token attends to the `topk` tokens that a small indexer scores
    highest.

    layers: number of layers with their own indexer. The others use the choice of the previous layer
    (GLM-5.2), except the `dense_layers`, which attend to everything (MiniMax-M3, which chooses whole blocks).
    The cache also has the indexer's keys, in fp8 with a scale per 128 (vLLM, models/deepseek_v2.py). arXiv
    2512.02556. stride: number of tokens that one key, and its cached entry, represents. key_projections:
    number of projections from which one key is made (DeepSeek-V4: 4 and 4).
    """

    num_heads: Size
    head_dim: Size
    topk: Tokens
    layers: Layers
    dense_layers: Layers = 0
    head_weights: bool = True
    stride: Tokens = 1
    key_projections: Size = 1

    @property
    def key_columns(self) -> int:
        """Columns of the GEMM for its key and the weights of its heads. MiniMax-M3 has no such weights: it
        takes the largest score over heads.
        """
        return self.key_projections * self.head_dim + (self.num_heads if self.head_weights else 0)

    @property
    def norm_params(self) -> int:
        """Scale and shift of the key's norm."""
        return 2 * self.head_dim


class Compressed(Frozen):
    """Layers that attend to a window and to one cached entry per `stride` tokens (DeepSeek-V4).

    chosen: only to the entries that the indexer scores highest.
    """

    layers: SomeLayers
    stride: Tokens
    chosen: bool = False


class LowRank(Frozen):
    """Plain heads with low-rank projections (DeepSeek-V4): queries through `query_rank`, outputs through
    `output_groups` to `output_rank` each.
    """

    query_rank: Size
    output_rank: Size
    output_groups: Size = 1


class Projection(Frozen):
    """A dense projection of some layers in addition to those of every family, such as a gate of the heads.

    name: its part among `formats.PARTS`, with an optional suffix. split: whether devices share its outputs,
    its inputs or neither.
    """

    name: str
    layers: SomeLayers
    inputs: Size
    outputs: Size
    split: Literal["outputs", "inputs", "none"] = "none"

    @property
    def params(self) -> int:
        """Parameters over all layers."""
        return self.layers * self.inputs * self.outputs


class LinearAttention(Frozen):
    """Layers that keep a state per sequence instead of a cache.

    The kinds are the gated delta rule (Qwen3-Next), Mamba-2 (Nemotron-H), Kimi's delta attention (a decay for
    each channel of a key, from a low-rank projection), a short convolution alone (LFM2: gated inputs and
    outputs, only the inputs of the convolution are kept), Mamba-1 (Jamba: a state of `key_head_dim` for each
    channel), and lightning attention (MiniMax-Text-01: gated, no convolution). The state has num_value_heads
    x key_head_dim x value_head_dim values per layer, and `conv_kernel - 1` inputs of the convolution.
    full_rank_gate: Kimi's gate is one projection, not two. gated_norm: there is a norm before the output
    (Mamba-2). Mamba-2 calls these heads, state size and head size; its groups are `num_key_heads`.
    """

    kind: Literal["gated_delta", "mamba2", "kimi_delta", "conv", "mamba1", "lightning"]
    layers: SomeLayers
    num_key_heads: Size
    num_value_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    conv_kernel: Size = 4
    state_dtype: Literal["fp32", "bf16"] = "fp32"
    full_rank_gate: bool = True
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Width of values, gate and output."""
        return self.num_value_heads * self.value_head_dim

    @property
    def convolved(self) -> int:
        """Channels of the convolution: values, and two of the width of the keys."""
        if self.kind in ("conv", "mamba1"):
            return self.inner
        return self.inner + 2 * self.num_key_heads * self.key_head_dim

    @property
    def projected(self) -> int:
        """Columns of the input projections: the convolved channels, the gate, and one or two numbers per
        head.

        Kimi's: queries, keys and values, two low-rank projections (of gate and decay), and one number per
        head.
        """
        if self.kind == "conv":
            return 3 * self.inner
        if self.kind == "mamba1":
            return 2 * self.inner
        if self.kind == "lightning":
            return self.convolved + self.inner
        if self.kind == "kimi_delta":
            gate = self.inner if self.full_rank_gate else self.value_head_dim
            return self.convolved + gate + self.key_head_dim + self.num_value_heads
        return self.convolved + self.inner + self.num_value_heads * (2 if self.kind == "gated_delta" else 1)

    @property
    def small_params(self) -> int:
        """Convolution, decay, time step and norm of one layer."""
        if self.kind == "conv":
            return self.convolved * self.conv_kernel
        if self.kind == "lightning":
            return self.inner
        if self.kind == "mamba1":
            return self.inner * (self.conv_kernel + 1 + self.key_head_dim + 2)
        if self.kind == "kimi_delta":
            up = self.key_head_dim + (0 if self.full_rank_gate else self.value_head_dim)
            heads = self.num_value_heads + self.inner + self.value_head_dim
            return self.convolved * self.conv_kernel + up * self.inner + heads
        if self.kind == "gated_delta":
            return self.convolved * self.conv_kernel + 2 * self.num_value_heads + self.value_head_dim
        heads = 3 * self.num_value_heads + self.gated_norm * self.inner
        return self.convolved * (self.conv_kernel + 1) + heads

    @property
    def state_values(self) -> int:
        """Values of the state of one sequence and layer."""
        if self.kind == "conv":
            return 0
        return self.num_value_heads * self.key_head_dim * self.value_head_dim

    @property
    def flops_per_value(self) -> int:
        """FLOPs of one token per value of the state: three products (delta rule) or two (Mamba-2), 2 FLOPs
        each.

        Delta rule (arXiv 2412.06464): read at the key, outer product, read at the query. Mamba-2
        (2405.21060): the last two.
        """
        return 6 if self.kind.endswith("delta") else 4

    def params(self, hidden: int) -> int:
        """Parameters of one layer without the norm before it."""
        return hidden * (self.projected + self.inner) + self.small_params


class AttentionHeads(Frozen):
    """Heads of attention layers. value_head_dim: None for `head_dim`. one_kv_projection: one projection makes
    keys and values, which are equal if `cached_once`.
    """

    num_attention_heads: Size
    num_key_value_heads: Size
    head_dim: Size
    value_head_dim: Size | None = None
    one_kv_projection: bool = False
    cached_once: bool = False

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.value_head_dim or self.head_dim

    @property
    def kv_values(self) -> int:
        """Cached values per token and layer."""
        return self.num_key_value_heads * (self.head_dim + (0 if self.cached_once else self.value_dim))

    @property
    def kv_columns(self) -> int:
        """Columns of the key and value projections."""
        return self.num_key_value_heads * (self.head_dim + (0 if self.one_kv_projection else self.value_dim))


class RopeScaling(Frozen):
    """Rotary frequency scaling, in Hugging Face's words (`dynamic` and `proportional` only by type and
    factor).

    low_freq_factor, high_freq_factor: for `llama3`. beta_fast ... mscale_all_dim: for `yarn`. short_factor,
    long_factor: for `longrope`, one per pair of dimensions. attention_factor: factor on cosine and sine, if
    stated.
    """

    rope_type: RopeType = "llama3"
    factor: Number
    low_freq_factor: Number = 1.0
    high_freq_factor: Number = 4.0
    original_max_position_embeddings: Tokens = 8192
    attention_factor: Number | None = None
    beta_fast: Number = 32.0
    beta_slow: Number = 1.0
    truncate: bool = True
    mscale: Number | None = None
    mscale_all_dim: Number | None = None
    short_factor: tuple[Number, ...] = ()
    long_factor: tuple[Number, ...] = ()


class Published(Frozen):
    """Parameter counts that a model's makers publish, in billions, to check the computed ones."""

    total_b: Number | None = None
    active_b: Number | None = None
    nonembedding_b: Number | None = None
    source: Text
