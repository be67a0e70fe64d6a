"""DFlash2: DFlash with short convolutions in each layer. At each position, a selector chooses one of several
candidate tokens.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import dense
from perfmodel.drafts.dflash import DFlash
from perfmodel.operations import Floats

CONVOLUTIONS = 2
"""Convolutions per layer: one before attention, one before the MLP."""
COEFFICIENTS = 2
"""Coefficients for each token that a convolution covers and each group of channels. The size of the published
head has this number as its only explanation (5,544,319,488 bytes, z-lab/dflash@0698f537).
"""
TABLES = 2
"""Tables of the selector, each with a row for each token of the vocabulary."""


class DFlash2(DFlash):
    """DFlash with two convolutions per layer, one before attention and one before the MLP. A projection of
    each token gives the coefficients of the convolutions.

    - kernel: number of tokens that a convolution covers.
    - group: number of channels that share their coefficients.
    - rank: length of the vectors with which the selector compares a token with the previous one.

    The selector reads one row per candidate from two tables with a row for each token of the vocabulary. The
    tables are counted as memory, but their reads are not counted (vLLM, models/qwen3_dflash2.py).
    """

    source = "github.com/z-lab/dflash@0a7587c0, tests/fixtures; vLLM 0.32, qwen3_dflash2.py"
    example = "dflash2:layers=5,features=5,block=16"
    limits = {"rank": (1, 2**16), "kernel": (1, 64), "group": (1, 2**16)}

    rank: int = 256
    kernel: int = 2
    group: int = 16

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of DFlash's pass, the coefficients of the convolutions, and the selector's
        projection.
        """
        more = [self._coefficients(shard, batch * query), self._selector(shard, batch * self.sampled(query))]
        return [*super().kind_ops(shard, batch, context, query), *more]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of DFlash's weights, of the projections, and of the selector's two tables. Every device has
        both tables in full.
        """
        projected = sum(
            float(op.cost.weight_bytes) for op in (self._coefficients(shard, 1.0), self._selector(shard, 1.0))
        )
        values = TABLES * self.rank * shard.model.vocab_size
        table_bytes = values * shard.precision.activation_bytes
        return super().own_weight_bytes(shard) + projected + table_bytes

    def _coefficients(self, shard: costs.Shard, tokens: Floats) -> Op:
        hidden = shard.model.hidden_size
        convolutions = float(CONVOLUTIONS * shard.model.num_hidden_layers)
        outputs = COEFFICIENTS * self.kernel * hidden / self.group
        return dense("dflash2 convolutions", shard, hidden, outputs, tokens, convolutions)

    def _selector(self, shard: costs.Shard, tokens: Floats) -> Op:
        return dense("dflash2 selector", shard, shard.model.hidden_size, self.rank, tokens)
