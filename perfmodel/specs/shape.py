"""The shape of a decoder-only transformer, in Hugging Face's words, and its parameters by component."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

MAX_LAYERS, MAX_SIZE, MAX_TOKENS = 10_000, 2**24, 2**40
Layers = Annotated[int, Field(strict=True, ge=0, le=MAX_LAYERS)]
Size = Annotated[int, Field(strict=True, ge=1, le=MAX_SIZE)]
Tokens = Annotated[int, Field(strict=True, ge=1, le=MAX_TOKENS)]
Number = Annotated[float, Field(strict=True, gt=0, le=1e15)]
RopeType = Literal["llama3", "linear", "dynamic", "yarn", "longrope"]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MoE(_Shape):
    """Routed experts (gated MLPs of `intermediate_size`), shared experts and the first dense layers."""

    num_experts: Size
    experts_per_token: Size
    intermediate_size: Size
    shared_intermediate_size: int = Field(0, strict=True, ge=0, le=MAX_SIZE)
    first_dense_layers: Layers = 0
    router_bias: StrictBool = False
    expert_bias: StrictBool = False

    @model_validator(mode="after")
    def _routable(self) -> "MoE":
        if self.experts_per_token > self.num_experts:
            raise ValueError(f"experts_per_token must be at most num_experts ({self.num_experts})")
        return self


class MLA(_Shape):
    """Latent attention (DeepSeek-V2/V3): `kv_lora_rank + qk_rope_head_dim` values cached per token and layer."""

    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size

    @property
    def latent_dim(self) -> int:
        """Cached values per token and layer."""
        return self.kv_lora_rank + self.qk_rope_head_dim


class RopeScaling(_Shape):
    """Rotary frequency scaling. Only `llama3` (Llama 3.1 model card) is held in full; the others by type and factor."""

    rope_type: RopeType = "llama3"
    factor: Number
    low_freq_factor: Number = 1.0
    high_freq_factor: Number = 4.0
    original_max_position_embeddings: Tokens = 8192


class Published(_Shape):
    """Parameter counts a model's makers print, to check the computed ones against (billions)."""

    total_b: Number | None = None
    active_b: Number | None = None
    nonembedding_b: Number | None = None
    source: str = Field(min_length=3)


class ModelSpec(_Shape):
    """One decoder-only model, from ``perfmodel/models/<name>.yaml`` or any Hugging Face ``config.json``.

    `num_sliding_layers` of the layers attend to the last `sliding_window` tokens only.
    """

    name: str
    title: str
    hf_id: str | None = None
    aliases: tuple[str, ...] = ()
    model_type: str
    num_hidden_layers: Annotated[Layers, Field(ge=1)]
    hidden_size: Size
    num_attention_heads: Size
    num_key_value_heads: Size
    head_dim: Size
    intermediate_size: Size
    vocab_size: Size
    max_position_embeddings: Tokens
    tie_word_embeddings: StrictBool = False
    qkv_bias: StrictBool = False
    output_bias: StrictBool = False
    mlp_bias: StrictBool = False
    qk_norm: StrictBool = False
    norms_per_layer: Size = 2
    attention_sinks: StrictBool = False
    rms_norm_eps: Number = 1e-5
    rope_theta: Number = 10000.0
    rope_scaling: RopeScaling | None = None
    sliding_window: Tokens | None = None
    num_sliding_layers: Layers = 0
    moe: MoE | None = None
    mla: MLA | None = None
    published: Published | None = None
    source: str = Field(min_length=3)
    notes: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "ModelSpec":
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads must divide num_attention_heads ({self.num_attention_heads}), "
                f"given {self.num_key_value_heads}"
            )
        if self.num_sliding_layers > self.num_hidden_layers:
            raise ValueError(f"num_sliding_layers must be at most num_hidden_layers ({self.num_hidden_layers})")
        if self.num_sliding_layers and not self.sliding_window:
            raise ValueError("sliding_window must be given where num_sliding_layers is above 0")
        if self.moe and self.moe.first_dense_layers > self.num_hidden_layers:
            raise ValueError(f"moe.first_dense_layers must be at most num_hidden_layers ({self.num_hidden_layers})")
        return self

    # Parameters by component; every other count in the engine is a sum of these.

    @property
    def query_params(self) -> int:
        """Query projection of one layer (with MLA: down, norm and up)."""
        if self.mla:
            width = self.num_attention_heads * (self.mla.qk_nope_head_dim + self.mla.qk_rope_head_dim)
            rank = self.mla.q_lora_rank
            return self.hidden_size * rank + rank + rank * width if rank else self.hidden_size * width
        width = self.num_attention_heads * self.head_dim
        return self.hidden_size * width + (width if self.qkv_bias else 0)

    @property
    def kv_params(self) -> int:
        """Key and value projections of one layer (with MLA: the shared down-projection and its norm)."""
        if self.mla:
            return self.hidden_size * self.mla.latent_dim + self.mla.kv_lora_rank
        width = 2 * self.num_key_value_heads * self.head_dim
        return self.hidden_size * width + (width if self.qkv_bias else 0)

    @property
    def latent_up_params(self) -> int:
        """MLA only: the per-head up-projections of keys and values from the latent, absorbed in decoding."""
        if not self.mla:
            return 0
        return self.mla.kv_lora_rank * self.num_attention_heads * (self.mla.qk_nope_head_dim + self.mla.v_head_dim)

    @property
    def output_params(self) -> int:
        """Attention output projection of one layer."""
        head = self.mla.v_head_dim if self.mla else self.head_dim
        return self.num_attention_heads * head * self.hidden_size + (self.hidden_size if self.output_bias else 0)

    @property
    def attention_extra_params(self) -> int:
        """Query/key norms and attention sinks of one layer."""
        norms = 2 * self.head_dim if self.qk_norm else 0
        return norms + (self.num_attention_heads if self.attention_sinks else 0)

    @property
    def dense_mlp_params(self) -> int:
        """Gated MLP of one dense layer: gate, up and down."""
        bias = 2 * self.intermediate_size + self.hidden_size if self.mlp_bias else 0
        return 3 * self.hidden_size * self.intermediate_size + bias

    @property
    def expert_params(self) -> int:
        """One routed expert."""
        if not self.moe:
            return 0
        width = self.moe.intermediate_size
        return 3 * self.hidden_size * width + (2 * width + self.hidden_size if self.moe.expert_bias else 0)

    @property
    def shared_expert_params(self) -> int:
        """All shared experts of one MoE layer, with the gate that Qwen-2 MoE puts on them."""
        if not self.moe or not self.moe.shared_intermediate_size:
            return 0
        gate = self.hidden_size if self.model_type == "qwen2_moe" else 0
        return 3 * self.hidden_size * self.moe.shared_intermediate_size + gate

    @property
    def router_params(self) -> int:
        """Router of one MoE layer."""
        if not self.moe:
            return 0
        return self.hidden_size * self.moe.num_experts + (self.moe.num_experts if self.moe.router_bias else 0)

    @property
    def num_moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_hidden_layers - self.moe.first_dense_layers if self.moe else 0

    @property
    def num_dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.num_hidden_layers - self.num_moe_layers

    @property
    def norm_params(self) -> int:
        """All layer norms and the final one."""
        return self.hidden_size * (self.norms_per_layer * self.num_hidden_layers + 1)

    @property
    def embedding_params(self) -> int:
        """Input embedding; the tied LM head has no weights of its own but is still read."""
        return self.vocab_size * self.hidden_size

    @property
    def attention_params(self) -> int:
        """Everything in one layer's attention."""
        projections = self.query_params + self.kv_params + self.latent_up_params + self.output_params
        return projections + self.attention_extra_params

    @property
    def total_params(self) -> int:
        """All parameters, as a model card counts them."""
        moe_layer = self.router_params + self.shared_expert_params
        experts = self.moe.num_experts * self.expert_params if self.moe else 0
        embeddings = self.embedding_params * (1 if self.tie_word_embeddings else 2)
        return (
            self.num_hidden_layers * self.attention_params
            + self.num_dense_layers * self.dense_mlp_params
            + self.num_moe_layers * (moe_layer + experts)
            + self.norm_params
            + embeddings
        )

    @property
    def active_params(self) -> int:
        """Parameters one token uses, without the input embedding (a table look-up): P_active of the closed forms."""
        idle = (self.moe.num_experts - self.moe.experts_per_token) * self.expert_params if self.moe else 0
        input_embedding = 0 if self.tie_word_embeddings else self.embedding_params
        return self.total_params - self.num_moe_layers * idle - input_embedding

    @property
    def kv_values_per_token_layer(self) -> int:
        """Cached values per token and layer before any sharding."""
        return self.mla.latent_dim if self.mla else 2 * self.num_key_value_heads * self.head_dim

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """KV bytes of one cached token over all layers, on one device without tensor parallelism (kappa)."""
        return self.num_hidden_layers * self.kv_values_per_token_layer * bytes_per_value
