"""DFlash: a few layers fill a block of masked positions in one pass. They attend to keys and values that
are made from the target's features.
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
    """`layers` dense layers of the target's shape, or of its own config.json, with their own cache.

    A pass runs the last token and gamma masks of each sequence and samples at the masks. Once per
    iteration, `features` hidden states of the target are projected to one width, and the result to the
    keys and values of every layer (vLLM, models/qwen3_dflash.py). block: positions of a pass; at most
    block - 1 tokens are drafted. vocab: as for EAGLE. Attention among the block's positions is counted as
    causal, so only half of it is counted. At contexts from 1k tokens on, the other half is under 1 % of
    all attention.
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
        """The head as a model. Raises InputError for a vocabulary beyond the target's."""
        return few_layers(target, cls.kind, options.get("layers", LAYERS), options.get("vocab", 0))

    @property
    def max_gamma(self) -> int | None:
        """All positions of the block except the last token's."""
        return self.block - 1

    def query(self, gamma: Floats) -> Floats:
        """The last token and one mask per drafted token."""
        return gamma + 1.0

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """One pass. The LM head runs at the masks only."""
        shape = costs.PassShape(batch, query, context, head_query=self.sampled(query))
        return costs.model_ops(shard, shape, self.kv)

    def sampled(self, query: Floats) -> Floats:
        """Positions of a pass at which a token is drafted."""
        return query - 1.0

    def iteration_ops(self, shard: costs.Shard, batch: Floats) -> list[Op]:
        """The projections of the features to one width, and of the result to keys and values of all
        layers.
        """
        model = shard.model
        into = self._projection(shard, batch)
        columns = model.num_attention_layers * model.heads().kv_columns
        return [
            into,
            dense(f"{self.kind} keys and values", shard, model.hidden_size, columns, batch, tensor="qkv"),
        ]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Layers with all their experts, norms, projection, and its own LM head if it has one."""
        into = float(self._projection(shard, 1.0).cost.weight_bytes)
        return layer_bytes(shard) + into + (shard.lm_head.weight_bytes if self.vocab else 0.0)

    def _projection(self, shard: costs.Shard, tokens: Floats) -> Op:
        hidden = shard.model.hidden_size
        return dense(
            f"{self.kind} projection", shard, self.features * (self.target_width or hidden), hidden, tokens
        )
