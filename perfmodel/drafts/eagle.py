"""EAGLE heads: a decoder layer that takes the target's hidden states and drafts one token per pass."""

from typing import Any

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft, dense, layer_bytes
from perfmodel.errors import InputError
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec

OWN_VOCAB = 32000
"""Number of tokens that EAGLE-3's published heads can draft (arXiv 2503.01840, and config.json of the Llama
heads).
"""


class Eagle(Draft):
    """A dense layer with its own cache. The shape of the layer is that of the target's layers, or that of the
    head's own config.json. The head uses the target's embedding.

    - features: number of hidden states of the target that the head takes. With 1 (EAGLE and EAGLE-2), every
      step projects one hidden state and the token's embedding to one vector. With more (EAGLE-3), the hidden
      states are projected to one vector once per iteration. The query, key and value projections of the first
      layer take this vector and the embedding (vLLM, models/llama_eagle3.py).
    - vocab: number of tokens that the head's own LM head can draft. By default, EAGLE and EAGLE-2 use the
      target's LM head, and every draft step reads all of it. EAGLE-3 by default has an LM head of `OWN_VOCAB`
      tokens, as published EAGLE-3 heads commonly do.
    - target_width: width of the target's hidden states if it differs from the head's, else 0.

    The first pass of an iteration also processes the accepted tokens, but it is counted with one token, like
    the other passes. The error is less than 1 % of the time of an iteration (docs/decisions.md).
    """

    source = "Li et al. 2024, arXiv 2401.15077; EAGLE-3: Li et al. 2025, arXiv 2503.01840"
    example = "eagle:features=3,vocab=32000"
    limits = {"features": (1, 16)}
    has_checkpoint = True
    starts_from_features = True

    features: int = 1
    vocab: int = 0
    target_width: int = 0

    @property
    def name(self) -> str:
        """The name ``eagle3`` with several features, else the name of the kind."""
        return "eagle3" if self.reads_inner_layers else self.kind

    @property
    def reads_inner_layers(self) -> bool:
        """See `Draft.reads_inner_layers`."""
        return self.features > 1

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The head as a model of one layer. Raises InputError for a vocabulary larger than the target's."""
        usual_vocab = min(OWN_VOCAB, target.vocab_size) if options.get("features", 1) > 1 else 0
        return few_layers(target, cls.kind, 1, options.get("vocab", usual_vocab))

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of the layer and the LM head. EAGLE has a projection before the layer. EAGLE-3 has a
        wider first projection inside the layer.
        """
        first = self._projection if self.features == 1 else _embedding_half
        return [first(shard, batch * query), *super().kind_ops(shard, batch, context, query)]

    def iteration_ops(self, shard: costs.Shard, batch: Floats) -> list[Op]:
        """The projection of the target's features in EAGLE-3. EAGLE has no such operation."""
        return [] if self.features == 1 else [self._projection(shard, batch)]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of the layer, norms and projections, and of an own LM head if there is one."""
        projection_bytes = float(self._projection(shard, 1.0).cost.weight_bytes)
        embedding_bytes = 0.0
        if self.features > 1:
            embedding_bytes = float(_embedding_half(shard, 1.0).cost.weight_bytes)
        head_bytes = shard.lm_head.weight_bytes if self.vocab or self.features > 1 else 0.0
        return layer_bytes(shard) + embedding_bytes + projection_bytes + head_bytes

    def _projection(self, shard: costs.Shard, tokens: Floats) -> costs.GemmOp:
        hidden = shard.model.hidden_size
        inputs = self.features * (self.target_width or hidden)
        if self.features == 1:
            inputs += hidden  # the token's embedding
        return dense("eagle projection", shard, inputs, hidden, tokens)


def _embedding_half(shard: costs.Shard, tokens: Floats) -> Op:
    """The embedding's half of the first layer's input projection. It is part of the same GEMM and has no
    separate launch.
    """
    first = shard.linears[0]
    hidden = shard.model.hidden_size
    columns = first.columns / first.kernels * shard.tensor_parallel
    whole = dense("eagle embedding", shard, hidden, columns, tokens, tensor="qkv")
    return whole.replace(kernels=0, quantisations=0)


ABSENT_IN_HEADS: dict[str, Any] = {
    "loops": 1,
    "attention_layers": None,
    "mlp_layers": None,
    "linear_attention": None,
    "compressed": (),
    "projections": (),
    "table_params": 0,
    "shared_kv_layers": 0,
    "shared_kv_sliding": 0,
    "num_nextn_predict_layers": None,
    "published": None,
}
"""Fields of a target that do not apply to its heads, with the values that mean this."""


def few_layers(
    target: ModelSpec, name: str, layers: int, vocab: int = 0, keep_experts: bool = False
) -> ModelSpec:
    """The target cut to a few layers, each with full attention and an MLP.

    - vocab: size of the vocabulary. 0 means the target's size.

    Without `keep_experts`, the layers have the form of published heads: they are dense, with plain attention
    and the target's numbers of heads. If the target has latent attention (MLA), the head instead has query
    heads of width 128 that fill the hidden width, and 8 KV heads. If every layer of the target has experts,
    the head's MLP is three times as wide as the hidden state (as in the published heads of Qwen3-30B-A3B and
    MiniMax-M2.5). With `keep_experts`, the experts and the token selection remain. The weight format is bf16.
    """
    if vocab and not 1 < vocab <= target.vocab_size:
        raise InputError(
            f"--draft: {name}: vocab must be 2 to {target.vocab_size} ({target.name}), given {vocab}"
        )
    experts = target.moe if keep_experts and not target.mtp_dense else None
    moe = experts.replace(first_dense_layers=0) if experts else None
    indexer = None
    if target.indexer and keep_experts and not target.compressed:  # DeepSeek-V4's MTP layer has only a window
        indexer = target.indexer.replace(layers=layers, dense_layers=0)
    changed = ABSENT_IN_HEADS | {
        "name": f"{name} of {target.name}",
        "num_hidden_layers": layers,
        "num_sliding_layers": layers if target.compressed and keep_experts else 0,
        "norms_per_layer": max(target.norms_per_layer, 2),
        "moe": moe,
        "indexer": indexer,
        "vocab_size": vocab or target.vocab_size,
        "weights": "bf16",
    }
    if not keep_experts:
        changed |= _plain_attention(target)
        if target.moe and not target.moe.first_dense_layers:
            changed["intermediate_size"] = 3 * target.hidden_size
    return target.replace(**changed)


def _plain_attention(target: ModelSpec) -> dict[str, Any]:
    """The fields of attention that remove a latent, a gate and sinks."""
    heads = target.num_attention_heads
    dim = target.head_dim
    kv = target.num_key_value_heads
    if target.mla or target.low_rank:
        heads = max(target.hidden_size // 128, 1)
        dim = 128
        kv = 8 if heads % 8 == 0 else heads
    elif target.sliding_heads:
        heads = target.sliding_heads.num_attention_heads
        dim = target.sliding_heads.head_dim
        kv = target.sliding_heads.num_key_value_heads
    absent = dict.fromkeys(("mla", "low_rank", "sliding_heads", "value_head_dim"))
    off = dict.fromkeys(("attention_gate", "attention_sinks", "one_kv_projection", "cached_once"), False)
    return {**absent, **off, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim}
