"""Domino: DFlash drafts a block in one pass, and a recurrent layer then corrects the logits token by
token.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import dense
from perfmodel.drafts.dflash import DFlash
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec


class Domino(DFlash):
    """After DFlash's pass, a step for each drafted token runs a GRU, a projection to width `emb`, and a
    projection to the logits.

    - gru, emb: the values `gru_hidden_dim` and `emb_dim` of the head's config.json. The user must give both,
      because no head is published.
    - pool: number of vocabulary tokens whose logits are corrected (SGLang's
      ``--speculative-domino-candidate-pool-size``). 0 means the whole vocabulary. All positions of the block
      share these tokens.
    """

    source = "github.com/sgl-project/sglang, 0.5.23, srt/models/dflash.py and srt/arg_groups/fields/spec.py"
    example = "domino:gru=1024,emb=256"
    limits = {"gru": (1, 2**16), "emb": (1, 2**16), "pool": (0, 2**20)}

    gru: int = 0
    emb: int = 0
    pool: int = 2048

    @classmethod
    def suits(cls, target: ModelSpec) -> bool:
        """False, because the widths of a head for this target are unknown. The user must give the options."""
        return False

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of DFlash's pass and of the corrections. Every device has all weights of the
        corrections.
        """
        steps = self.sampled(query)
        return [
            *super().kind_ops(shard, batch, context, query),
            *self._corrections(shard, batch, steps, self.pool),
        ]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of the weights of DFlash, and of the corrections for the whole vocabulary."""
        own = self._corrections(shard, 1.0, 1.0, 0)
        return super().own_weight_bytes(shard) + sum(float(op.cost.weight_bytes) for op in own)

    def _corrections(self, shard: costs.Shard, batch: Floats, steps: Floats, pool: int) -> list[Op]:
        """The three products with which each drafted token corrects the logits of the next token.

        - pool: number of tokens whose logits are corrected. 0 means the whole vocabulary.
        """
        whole = shard.tensor_parallel  # `dense` shares the outputs, but every device has all of them
        inputs = shard.model.hidden_size + self.gru
        sizes = {
            "gru": (inputs, 3.0 * self.gru),
            "features": (inputs, self.emb),
            "logits": (self.emb, pool or shard.model.vocab_size),
        }
        return [
            dense(f"domino {name}", shard, read, float(made * whole), batch, steps)
            for name, (read, made) in sizes.items()
        ]
