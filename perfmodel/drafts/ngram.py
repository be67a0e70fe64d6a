"""N-gram (prompt look-up) drafting: the draft is the tokens that followed an earlier occurrence of the
latest tokens. The host finds them.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft
from perfmodel.operations import Floats


class NGram(Draft):
    """No model and no pass: only verification costs time. Its acceptance is stated by two numbers: the
    probability of a match, and the mean number of right tokens in a match.

    `model` is the target and is not run. Two effects are not modelled: the time of the look-up on the
    host, and the smaller verification of a sequence without a match (docs/decisions.md describes the
    effect on large batches).
    """

    source = "Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding"
    example = "ngram"
    reads_cache = False
    varying_lengths = True
    views_target_cache = True  # it keeps no cache
    shares_weights = True  # it has no weights
    shares_prefill = True  # it needs the tokens only

    def passes(self, gamma: Floats) -> Floats:
        """Zero, because the draft runs no model."""
        return 0.0

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """Empty, because the draft runs no model."""
        return []
