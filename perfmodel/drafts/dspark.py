"""DSpark: DFlash drafts a block in one pass, and a low-rank step per token then takes the previous token into
account.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import dense
from perfmodel.drafts.dflash import DFlash
from perfmodel.operations import Floats


class DSpark(DFlash):
    """DFlash in which the position of the last token also drafts a token. Gamma positions therefore draft
    gamma tokens.

    - rank: rank of the matrix with which the previous token corrects a token's logits (`markov_rank` in the
      checkpoint's config.json). The rank is 256 in both known heads (DeepSeek-V4-Flash and Ling-3.0-tiny,
      sgl-project/SpecForge@67fea1af and @08218962 configs/).

    For each drafted token, a step reads rank x vocabulary additional weights. The steps run one after another
    (vLLM, models/qwen3_dspark.py).
    """

    source = "github.com/vllm-project/vllm, v0.32, model_executor/models/qwen3_dspark.py"
    example = "dspark:rank=256,block=7"
    limits = {"rank": (1, 2**16)}

    rank: int = 256

    @property
    def max_gamma(self) -> int | None:
        """The number of positions of the block."""
        return self.block

    def query(self, gamma: Floats) -> Floats:
        """The number of query tokens, one per drafted token."""
        return gamma

    def sampled(self, query: Floats) -> Floats:
        """The number of positions at which a token is drafted, which is all positions of the pass."""
        return query

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of DFlash's pass and of the corrections. Every device has all weights of the
        corrections.
        """
        return [*super().kind_ops(shard, batch, context, query), self._transition(shard, batch, query)]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of the weights of DFlash, and of the two matrices of the correction."""
        table = float(self._transition(shard, 1.0, 1.0).cost.weight_bytes)
        return super().own_weight_bytes(shard) + 2.0 * table

    def _transition(self, shard: costs.Shard, batch: Floats, steps: Floats) -> Op:
        columns = shard.model.vocab_size * shard.tensor_parallel  # every device has all of them
        return dense("dspark transition", shard, self.rank, columns, batch, steps, "lm_head")
