"""The parts of a model and their sizes: heads, experts, a latent, an indexer, projections and rotary
scaling.
"""

from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text

MAX_LAYERS = 10_000
MAX_SIZE = 2**24
MAX_TOKENS = 2**40
"""Largest number of layers, size of a part, and number of tokens in a file."""
Layers = Annotated[int, Meta(ge=0, le=MAX_LAYERS)]
SomeLayers = Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
Number = Annotated[float, Meta(gt=0, le=1e15)]
RopeType = Literal["llama3", "linear", "dynamic", "yarn", "longrope", "proportional"]


class AttentionHeads(Frozen):
    """The heads of attention layers.

    - value_head_dim: width of a value head. None means `head_dim`.
    - one_kv_projection: whether one projection computes both keys and values.
    - cached_once: whether keys and values are equal and therefore cached only once.
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
        """Number of cached values per token and layer."""
        return self.num_key_value_heads * (self.head_dim + (0 if self.cached_once else self.value_dim))

    @property
    def kv_columns(self) -> int:
        """Number of columns of the key and value projections."""
        return self.num_key_value_heads * (self.head_dim + (0 if self.one_kv_projection else self.value_dim))


class MoE(Frozen):
    """The routed experts (MLPs of width `intermediate_size`), the shared experts and the dense layers of a
    model.

    - first_dense_layers: number of layers with a dense MLP instead of experts, at any position. They are the
      first layers in DeepSeek-V3, and every second layer in Llama-4 Maverick.
    - normalized_weights: whether the weights of a token's experts sum to 1.
    - shared_gate: whether the shared expert has a gate of one column (Qwen).
    - latent_size: width of the vectors that experts read and write, if two projections that all experts of a
      layer share change the width (Nemotron-3 Super).
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
    """Latent attention (MLA, as in DeepSeek-V2 and V3). It caches `kv_lora_rank + qk_rope_head_dim` values
    per token and layer.

    - unrotated_layers: number of layers without a rotary part. They cache only the latent (Mistral-Large-4).
    """

    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Annotated[int, Meta(ge=0, le=MAX_SIZE)]
    v_head_dim: Size
    unrotated_layers: Layers = 0

    @property
    def latent_dim(self) -> int:
        """Number of cached values per token and layer."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def projection_params(self, hidden: int, heads: int) -> int:
        """Number of parameters of the projections in one layer, including the norms of the latents
        (DeepSeek-V2, arXiv 2405.04434, 2.1).

        - hidden: hidden size of the model.
        - heads: number of query heads.
        """
        rank = self.q_lora_rank
        query_columns = heads * (self.qk_nope_head_dim + self.qk_rope_head_dim)
        query = rank * (hidden + 1 + query_columns) if rank else hidden * query_columns
        latent = hidden * self.latent_dim + self.kv_lora_rank
        keys_and_values = self.kv_lora_rank * heads * (self.qk_nope_head_dim + self.v_head_dim)
        output = heads * self.v_head_dim * hidden
        return query + latent + keys_and_values + output


class Indexer(Frozen):
    """The indexer of DeepSeek sparse attention (arXiv 2512.02556). Each query token attends to the `topk`
    tokens that the indexer scores highest. The cache also has the keys of the indexer, in fp8 with a scale
    per 128 values (vLLM, models/deepseek_v2.py).

    - layers: number of layers with their own indexer. All other layers except the `dense_layers` use the
      choice of the previous layer (GLM-5.2).
    - dense_layers: number of layers that attend to all tokens (MiniMax-M3).
    - stride: number of tokens that one key and its cached entry represent. It is 4 in DeepSeek-V4.
    - key_projections: number of projections that one key needs. It is 4 in DeepSeek-V4.
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
        """Number of columns of the GEMM that computes the indexer's key and the weights of its heads.
        MiniMax-M3 has no such weights, because it uses the largest score over heads.
        """
        return self.key_projections * self.head_dim + (self.num_heads if self.head_weights else 0)

    @property
    def norm_params(self) -> int:
        """Number of parameters of the key's norm (scale and shift)."""
        return 2 * self.head_dim


class Compressed(Frozen):
    """Layers that attend to a sliding window, and to one cached entry per `stride` tokens (DeepSeek-V4).

    - chosen: whether the layers attend only to the entries that the indexer scores highest.
    """

    layers: SomeLayers
    stride: Tokens
    chosen: bool = False


class LowRank(Frozen):
    """Low-rank projections of ordinary attention heads (DeepSeek-V4). Queries pass through `query_rank`
    values. Outputs pass through `output_groups` groups of `output_rank` values.
    """

    query_rank: Size
    output_rank: Size
    output_groups: Size = 1

    def projection_params(self, hidden: int, heads: AttentionHeads, query_columns: int) -> int:
        """Number of parameters of the projections in one layer, including the norms of the low-rank query and
        of a key.

        - hidden: hidden size of the model.
        - query_columns: number of columns of all query heads, including their gate if there is one.
        """
        query = self.query_rank * (hidden + 1 + query_columns)
        keys_and_values = hidden * heads.kv_columns + heads.head_dim
        output_inputs = heads.num_attention_heads * heads.value_dim
        output = self.output_rank * (output_inputs + self.output_groups * hidden)
        return query + keys_and_values + output


class Projection(Frozen):
    """A dense projection that some layers have in addition to the projections of all families, such as a gate
    of the heads.

    - name: the name of the part in `weights.PARTS` to which the projection belongs, with an optional suffix.
    - split: whether devices share the outputs, the inputs or neither.
    """

    name: str
    layers: SomeLayers
    inputs: Size
    outputs: Size
    split: Literal["outputs", "inputs", "none"] = "none"

    @property
    def params(self) -> int:
        """Number of parameters, over all layers."""
        return self.layers * self.inputs * self.outputs


class RopeScaling(Frozen):
    """The scaling of rotary frequencies, with the names of Hugging Face. `dynamic` and `proportional` have
    only a type and a factor.

    - low_freq_factor, high_freq_factor: only for `llama3`.
    - beta_fast, beta_slow, truncate, mscale, mscale_all_dim: only for `yarn`.
    - short_factor, long_factor: only for `longrope`, with one number per pair of dimensions.
    - attention_factor: factor on cosine and sine, if the file states it.
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
    """The parameter counts that the makers of a model published, in billions. The computed counts are checked
    against them.
    """

    total_b: Number | None = None
    active_b: Number | None = None
    nonembedding_b: Number | None = None
    source: Text
