"""Medusa heads: several LM heads that take the target's last hidden state. In one pass, the k-th head
predicts the k-th drafted token.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft, dense
from perfmodel.operations import Floats
from perfmodel.specs import BF16, ModelSpec, Weights


class Medusa(Draft):
    """A number of Medusa heads (`heads`). The first gamma heads run.

    Each head has a residual block (hidden x hidden) and an LM head. `model` is the target, of which only the
    shape is used. No head sees the tokens of the other heads, so the acceptance falls with the position. The
    user should give the acceptance by position.
    """

    source = "Cai et al. 2024, arXiv 2401.10774"
    example = "medusa:heads=4"
    limits = {"heads": (1, 64)}
    in_one_pass = True
    reads_cache = False
    views_target_cache = True  # the heads have no cache
    shares_prefill = True  # the heads need only the last hidden state

    heads: int = 4

    @classmethod
    def own_weights(cls, model: ModelSpec) -> Weights:
        """Heads are published in bf16, regardless of the target's format."""
        return BF16

    @property
    def max_gamma(self) -> int | None:
        """The number of heads, because each head drafts one token."""
        return self.heads

    def query(self, gamma: Floats) -> Floats:
        """The number of heads that run, which is one per drafted token."""
        return gamma

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of `query` residual blocks and LM heads, with one token per sequence each."""
        hidden = shard.model.hidden_size
        vocab = shard.model.vocab_size
        return [
            dense("medusa block", shard, hidden, hidden, batch, query),
            dense("medusa head", shard, hidden, vocab, batch, query, "lm_head"),
        ]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of the weights of all heads."""
        block, head = (float(op.cost.weight_bytes) for op in self.kind_ops(shard, 1.0, 0.0, 1.0))
        return self.heads * (block + head)
