"""DFlash: a few layers fill a block of masked positions in one pass. The layers attend to keys and values
that are computed from hidden states of the target.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft, dense, layer_bytes
from perfmodel.drafts.eagle import few_layers
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec

LAYERS = 5
"""Layers of the published heads for dense Qwen3 targets (arXiv 2602.06036)."""


class DFlash(Draft):
    """A head of `layers` dense layers with their own cache.

    The shape of the layers is that of the target's layers, or that of the head's own config.json. For each
    sequence, a pass processes the last token and gamma masks, and drafts a token at each mask. Once per
    iteration, `features` hidden states of the target are projected to one vector, and this vector to the keys
    and values of every layer (vLLM, models/qwen3_dflash.py).

    - block: number of positions of a pass. At most block - 1 tokens are drafted.
    - vocab: number of tokens that the head's own LM head can draft. 0 means the target's LM head.

    Attention between the positions of the block is counted as causal, so only half of it is counted. At a
    context of 1k tokens or more, the other half is below 1 % of all attention.
    """

    source = "Chen et al. 2026 (DFlash), arXiv 2602.06036"
    example = "dflash:layers=5,features=5,block=16"
    limits = {"layers": (1, 64), "features": (1, 64), "block": (2, 1025)}
    has_checkpoint = True
    in_one_pass = True
    launched_by_host = False  # no published step of such a draft shows these launches
    starts_from_features = True

    layers: int = LAYERS
    features: int = 5
    block: int = 16
    vocab: int = 0
    target_width: int = 0

    @property
    def reads_inner_layers(self) -> bool:
        """See `Draft.reads_inner_layers`."""
        return True

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The head as a model. Raises InputError for a vocabulary larger than the target's."""
        return few_layers(target, cls.kind, options.get("layers", LAYERS), options.get("vocab", 0))

    @property
    def max_gamma(self) -> int | None:
        """The number of positions of the block, without the position of the last token."""
        return self.block - 1

    def query(self, gamma: Floats) -> Floats:
        """The number of query tokens: the last token and one mask per drafted token."""
        return gamma + 1.0

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of one pass. The LM head only runs at the masks."""
        shape = costs.PassShape(batch, query, context, head_query=self.sampled(query))
        return costs.model_ops(shard, shape, self.kv)

    def sampled(self, query: Floats) -> Floats:
        """The number of positions of a pass at which a token is drafted."""
        return query - 1.0

    def iteration_ops(self, shard: costs.Shard, batch: Floats) -> list[Op]:
        """Two projections. The first maps the target's hidden states to one vector. The second maps this
        vector to the keys and values of all layers.
        """
        model = shard.model
        into = self._projection(shard, batch)
        columns = model.num_attention_layers * model.heads().kv_columns
        return [
            into,
            dense(f"{self.kind} keys and values", shard, model.hidden_size, columns, batch, tensor="qkv"),
        ]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of the layers with all their experts and norms, of the projection, and of an own LM head if
        there is one.
        """
        into = float(self._projection(shard, 1.0).cost.weight_bytes)
        return layer_bytes(shard) + into + (shard.lm_head.weight_bytes if self.vocab else 0.0)

    def _projection(self, shard: costs.Shard, tokens: Floats) -> Op:
        hidden = shard.model.hidden_size
        return dense(
            f"{self.kind} projection", shard, self.features * (self.target_width or hidden), hidden, tokens
        )
