"""N-gram drafts (prompt look-up): the host searches for an earlier occurrence of the latest tokens, and the
tokens that followed it are the draft.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft
from perfmodel.operations import Floats


class NGram(Draft):
    """The draft runs no model, so only verification costs time. Two numbers describe its acceptance: the
    probability of a match, and the mean number of accepted tokens after a match.

    `model` is the target, and the draft does not run it. Two effects are not modelled: the time of the
    look-up on the host, and the smaller verification of a sequence without a match (docs/decisions.md
    describes the effect on large batches).
    """

    source = "Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding"
    example = "ngram"
    reads_cache = False
    varying_lengths = True
    views_target_cache = True  # the draft has no cache
    shares_weights = True  # the draft has no weights
    shares_prefill = True  # the draft needs only the tokens

    def passes(self, gamma: Floats) -> Floats:
        """Zero, because the draft runs no model."""
        return 0.0

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """An empty list, because the draft runs no model."""
        return []
