"""DSpark: DFlash's block in one pass, then a low-rank step per token that depends on the token before."""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import dense
from perfmodel.drafts.dflash import DFlash
from perfmodel.operations import Floats


class DSpark(DFlash):
    """The last token's position predicts too, so a block of gamma positions drafts gamma tokens.

    rank: width of the transition from one token to the next, `markov_rank` of the checkpoint's config.json
    (256 in both known heads: DeepSeek-V4-Flash and Ling-3.0-tiny, sgl-project/SpecForge@67fea1af and
    @08218962 configs/). Each drafted token reads rank x vocabulary additional weights, one token after
    another (vLLM, models/qwen3_dspark.py).
    """

    source = "github.com/vllm-project/vllm, v0.32, model_executor/models/qwen3_dspark.py"
    example = "dspark:rank=256,block=7"
    limits = {"rank": (1, 2**16)}

    rank: int = 256

    @property
    def max_gamma(self) -> int | None:
        """All positions of the block."""
        return self.block

    def query(self, gamma: Floats) -> Floats:
        """One position per drafted token."""
        return gamma

    def sampled(self, query: Floats) -> Floats:
        """All positions of the block."""
        return query

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """DFlash's pass and the transitions; the transition weights are whole on every device."""
        return [*super().kind_ops(shard, batch, context, query), self._transition(shard, batch, query)]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """The weights of DFlash, the transition matrix, and its input table."""
        table = float(self._transition(shard, 1.0, 1.0).cost.weight_bytes)
        return super().own_weight_bytes(shard) + 2.0 * table

    def _transition(self, shard: costs.Shard, batch: Floats, steps: Floats) -> Op:
        columns = shard.model.vocab_size * shard.tensor_parallel
        return dense("dspark transition", shard, self.rank, columns, batch, steps, "lm_head")
