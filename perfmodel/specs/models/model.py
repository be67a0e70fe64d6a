"""The shape of a decoder-only transformer with the field names of Hugging Face, and its parameter counts by
component.
"""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import force_setattr

from perfmodel.operations import WIDE_HEAD, Head
from perfmodel.specs.boundary.frozen import Text
from perfmodel.specs.models.components import (
    MLA,
    AttentionHeads,
    Compressed,
    Indexer,
    Layers,
    LowRank,
    MoE,
    Number,
    Projection,
    Published,
    RopeScaling,
    Size,
    SomeLayers,
    Tokens,
)
from perfmodel.specs.models.formats import kv_format
from perfmodel.specs.models.recurrent import LinearAttention
from perfmodel.specs.models.weights import weight_format


class ModelSpec(AttentionHeads):
    """The shape of one decoder-only model, read from ``perfmodel/models/<name>.yaml`` or from any Hugging
    Face ``config.json``.

    The fields of `AttentionHeads` describe the full-attention layers. `num_sliding_layers` of the attention
    layers attend only to the last `sliding_window` tokens. If `sliding_heads` is set, the heads of these
    layers have other sizes.

    - attention_layers, mlp_layers: number of layers with attention, and with an MLP. It is None if every
      layer has an MLP and either attention or a recurrent state. In Nemotron-H, a layer has only attention,
      only a recurrent state or only an MLP.
    - attention_gate: whether the query projection also computes a gate for the output.
    - wide_qk_norm: whether the norms of queries and keys span all heads (OLMo-2).
    - norm_bias: whether norms also have a shift.
    - shared_kv_layers, shared_kv_sliding: number of full-attention and of sliding-window layers that read the
      cache of another layer (Gemma-3n).
    - loops: number of times that a pass runs the stored layers. num_hidden_layers counts every run.
    - residual_streams: number of hidden states that a layer passes to the next one.
    - table_params: number of parameters of tables other than the embedding. A token reads one row of each
      table.
    - weights, kv_dtype: formats of the checkpoint, as values of `--weights` and `--kv-dtype`.
    - num_nextn_predict_layers: number of multi-token prediction layers, which no parameter count includes. It
      is None if it is unknown.
    - mtp_head: Hugging Face id of the checkpoint with multi-token prediction layers, if config.json does not
      mention them.
    - mtp_dense: whether such a layer has a dense MLP instead of experts.
    """

    name: str
    title: str
    hf_id: str | None = None
    aliases: tuple[str, ...] = ()
    model_type: str
    num_hidden_layers: SomeLayers
    loops: Annotated[int, Meta(ge=1)] = 1
    hidden_size: Size
    intermediate_size: Size
    vocab_size: Size
    max_position_embeddings: Tokens
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    gated_mlp: bool = True
    qk_norm: bool = False
    wide_qk_norm: bool = False
    attention_gate: bool = False
    norms_per_layer: Size = 2
    norm_bias: bool = False
    attention_sinks: bool = False
    rms_norm_eps: Number = 1e-5
    rope_theta: Number = 10000.0
    rope_scaling: RopeScaling | None = None
    partial_rotary_factor: Annotated[float, Meta(gt=0, le=1)] = 1.0
    sliding_window: Tokens | None = None
    num_sliding_layers: Layers = 0
    sliding_heads: AttentionHeads | None = None
    attention_layers: Layers | None = None
    mlp_layers: Layers | None = None
    shared_kv_layers: Layers = 0
    shared_kv_sliding: Layers = 0
    residual_streams: Size = 1
    table_params: Annotated[int, Meta(ge=0, le=2**48)] = 0
    moe: MoE | None = None
    mla: MLA | None = None
    indexer: Indexer | None = None
    linear_attention: LinearAttention | None = None
    low_rank: LowRank | None = None
    compressed: tuple[Compressed, ...] = ()
    projections: tuple[Projection, ...] = ()
    num_nextn_predict_layers: Layers | None = None
    mtp_head: str | None = None
    mtp_dense: bool = False
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    published: Published | None = None
    source: Text
    notes: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "weights", weight_format(self.weights, "weights").name)
        force_setattr(self, "kv_dtype", kv_format(self.kv_dtype, "kv_dtype").name)
        self._check_heads()
        self._check_windows()
        self._check_layers()

    def _check_heads(self) -> None:
        """Raises ValueError if query heads do not share KV heads evenly."""
        for heads in (self.heads(False), self.heads(True)):
            if heads.num_attention_heads % heads.num_key_value_heads:
                raise ValueError(
                    f"num_key_value_heads must divide num_attention_heads ({heads.num_attention_heads}), "
                    f"given {heads.num_key_value_heads}"
                )

    def _check_windows(self) -> None:
        """Raises ValueError for more sliding-window layers than attention layers, and without a window."""
        if self.num_sliding_layers > self.num_attention_layers:
            raise ValueError(
                f"num_sliding_layers must be at most num_hidden_layers ({self.num_attention_layers})"
            )
        if self.num_sliding_layers and not self.sliding_window:
            raise ValueError("sliding_window must be given where num_sliding_layers is above 0")

    def _check_layers(self) -> None:
        """Raises ValueError for numbers of layers that contradict each other."""
        if self.loops > 1 and (self.num_hidden_layers % self.loops or self.moe or self.linear_attention):
            raise ValueError(
                f"loops must divide num_hidden_layers ({self.num_hidden_layers}), with attention and MLP, "
                f"given {self.loops}"
            )
        if self.moe and self.moe.first_dense_layers > self.num_mlp_layers:
            raise ValueError(
                f"moe.first_dense_layers must be at most num_hidden_layers ({self.num_mlp_layers})"
            )
        full = self.num_attention_layers - self.num_sliding_layers
        if self.indexer and self.indexer.dense_layers > full:
            raise ValueError(f"indexer.dense_layers must be at most the {full} layers of full attention")
        if (
            not 0 <= self.num_attention_layers <= self.num_hidden_layers
            or self.num_mlp_layers > self.num_hidden_layers
        ):
            raise ValueError(
                "attention_layers, mlp_layers and linear_attention.layers must be among the layers there are"
            )

    @property
    def rotary_dim(self) -> int:
        """Number of dimensions of a head that have a rotary position."""
        return int(self.head_dim * self.partial_rotary_factor)

    # Numbers of layers by kind.

    @property
    def head(self) -> Head:
        """The kind of the model's attention heads. Some kinds have their own kernels."""
        if self.mla:
            return "latent"
        if self.attention_sinks:
            return "sinks"
        return "wide" if self.heads(False).head_dim > WIDE_HEAD else "usual"

    @property
    def num_attention_layers(self) -> int:
        """Number of layers with attention over a cache."""
        recurrent = self.linear_attention.layers if self.linear_attention else 0
        return self.num_hidden_layers - recurrent if self.attention_layers is None else self.attention_layers

    @property
    def num_mlp_layers(self) -> int:
        """Number of layers with a dense MLP or with experts."""
        return self.num_hidden_layers if self.mlp_layers is None else self.mlp_layers

    @property
    def num_moe_layers(self) -> int:
        """Number of layers with routed experts."""
        return self.num_mlp_layers - self.moe.first_dense_layers if self.moe else 0

    @property
    def num_dense_layers(self) -> int:
        """Number of layers with a dense MLP."""
        return self.num_mlp_layers - self.num_moe_layers

    @property
    def num_blocks(self) -> int:
        """Number of blocks that add to the residual stream: attention, recurrent and MLP blocks."""
        recurrent = self.linear_attention.layers if self.linear_attention else 0
        return self.num_attention_layers + recurrent + self.num_mlp_layers

    def heads(self, sliding: bool = False) -> AttentionHeads:
        """The heads of the full-attention layers, or of the sliding-window layers if `sliding` is true."""
        if sliding and self.sliding_heads:
            return self.sliding_heads
        return self

    # Parameters by component. All other counts of parameters are sums of these.

    def attention_params(self, sliding: bool = False) -> int:
        """Number of parameters of one attention layer, without the norm before it and without an indexer."""
        heads = self.heads(sliding)
        query_columns = heads.num_attention_heads * heads.head_dim * (2 if self.attention_gate else 1)
        if self.mla:
            projections = self.mla.projection_params(self.hidden_size, heads.num_attention_heads)
        elif self.low_rank:
            projections = self.low_rank.projection_params(self.hidden_size, heads, query_columns)
        else:
            projections = self._full_rank_params(heads, query_columns)
        return projections + self.extra_params(heads)

    def _full_rank_params(self, heads: AttentionHeads, query_columns: int) -> int:
        """Number of parameters of the projections of one layer, including their biases."""
        qkv_columns = query_columns + heads.kv_columns
        output_inputs = heads.num_attention_heads * heads.value_dim
        biases = qkv_columns * self.qkv_bias + self.hidden_size * self.output_bias
        return self.hidden_size * (qkv_columns + output_inputs) + biases

    def _kv_params(self, sliding: bool) -> int:
        """Number of parameters that a layer lacks if it reads the cache of another layer. These are the
        projections of keys and values, and the norm of the keys.
        """
        heads = self.heads(sliding)
        projections = heads.kv_columns * (self.hidden_size + self.qkv_bias)
        if not self.qk_norm:
            return projections
        normed_heads = heads.num_key_value_heads if self.wide_qk_norm else 1
        return projections + normed_heads * heads.head_dim

    def extra_params(self, heads: AttentionHeads) -> int:
        """Number of parameters of the query and key norms and of the attention sinks, per layer. All heads
        share one norm. With `wide_qk_norm`, the norm spans all heads.
        """
        both = heads.num_attention_heads + heads.num_key_value_heads if self.wide_qk_norm else 2
        return both * heads.head_dim * self.qk_norm + heads.num_attention_heads * self.attention_sinks

    @property
    def indexer_params(self) -> int:
        """Number of parameters of the indexers of all layers."""
        indexer = self.indexer
        if indexer is None:
            return 0
        rank = None
        if self.low_rank:
            rank = self.low_rank.query_rank
        elif self.mla:
            rank = self.mla.q_lora_rank
        query = (rank or self.hidden_size) * indexer.num_heads * indexer.head_dim
        return indexer.layers * (query + self.hidden_size * indexer.key_columns + indexer.norm_params)

    @property
    def mlp_matrices(self) -> int:
        """Number of matrices of an MLP: 3 (gate, up and down) or 2 (up and down)."""
        return 3 if self.gated_mlp else 2

    @property
    def dense_mlp_params(self) -> int:
        """Number of parameters of the MLP in one dense layer."""
        bias = (self.mlp_matrices - 1) * self.intermediate_size + self.hidden_size
        return self.mlp_matrices * self.hidden_size * self.intermediate_size + bias * self.mlp_bias

    @property
    def expert_params(self) -> int:
        """Number of parameters of one routed expert."""
        if not (moe := self.moe):
            return 0
        width = moe.intermediate_size
        outer = moe.latent_size or self.hidden_size
        return self.mlp_matrices * outer * width + ((self.mlp_matrices - 1) * width + outer) * moe.expert_bias

    @property
    def moe_layer_params(self) -> int:
        """Number of parameters of one MoE layer: the router, the routed and shared experts with their gate,
        and the projections to and from a latent.
        """
        if not (moe := self.moe):
            return 0
        router = moe.num_experts * (self.hidden_size + moe.router_bias)
        beside = (
            self.mlp_matrices * moe.shared_intermediate_size + moe.shared_gate + 2 * (moe.latent_size or 0)
        )
        return router + moe.num_experts * self.expert_params + self.hidden_size * beside

    @property
    def norm_params(self) -> int:
        """Number of parameters of all layer norms and of the final norm."""
        norms = self.norms_per_layer * self.num_hidden_layers // self.loops + 1
        return self.hidden_size * (1 + self.norm_bias) * norms

    @property
    def embedding_params(self) -> int:
        """Number of parameters of the input embedding. A tied LM head has no weights of its own, but a pass
        reads it anyway.
        """
        return self.vocab_size * self.hidden_size

    @property
    def total_params(self) -> int:
        """Number of all parameters, as a model card counts them."""
        full_layers = self.num_attention_layers - self.num_sliding_layers
        attention = full_layers * self.attention_params()
        attention += self.num_sliding_layers * self.attention_params(sliding=True)
        attention -= self.shared_kv_layers * self._kv_params(False)
        attention -= self.shared_kv_sliding * self._kv_params(True)
        recurrent = 0
        if self.linear_attention:
            recurrent = self.linear_attention.layers * self.linear_attention.params(self.hidden_size)
        mlps = self.num_dense_layers * self.dense_mlp_params + self.num_moe_layers * self.moe_layer_params
        stored = (attention + recurrent + self.indexer_params + mlps) // self.loops
        projections = sum(each.params for each in self.projections)
        tables = 1 if self.tie_word_embeddings else 2
        embeddings = self.table_params + tables * self.embedding_params
        return stored + self.norm_params + projections + embeddings

    @property
    def active_params(self) -> int:
        """Number of parameters that one token uses (P_active of the closed forms). The input embedding is
        left out, because it is only a table look-up.
        """
        idle = (self.moe.num_experts - self.moe.experts_per_token) * self.expert_params if self.moe else 0
        input_embedding = 0 if self.tie_word_embeddings else self.embedding_params
        return self.total_params - self.num_moe_layers * idle - input_embedding - self.table_params

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """KV bytes of one cached token over all layers, on one device without tensor parallelism (kappa in
        docs/model.md).
        """
        if self.mla:
            values = (self.num_attention_layers - self.shared_kv_layers) * self.mla.latent_dim
            return (values - self.mla.unrotated_layers * self.mla.qk_rope_head_dim) * bytes_per_value
        if self.compressed:  # the windows of these layers do not grow
            entries = sum(part.layers / part.stride for part in self.compressed)
            return entries * self.heads().kv_values * bytes_per_value
        full = self.num_attention_layers - self.num_sliding_layers - self.shared_kv_layers
        sliding = self.num_sliding_layers - self.shared_kv_sliding
        values = full * self.heads().kv_values + sliding * self.heads(sliding=True).kv_values
        return values * bytes_per_value
