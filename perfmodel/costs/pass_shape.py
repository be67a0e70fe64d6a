"""The tokens of one pass, as far as the counts of its operations depend on them."""

from perfmodel.immutable import Immutable
from perfmodel.operations import Floats


class PassShape(Immutable):
    """Each of `batch` sequences runs `query` tokens against `context` cached ones. The fields broadcast.

    head_query: tokens per sequence that reach the LM head (None: all; 1 in prefill). independent_query:
    tokens per sequence that route independently to experts (1 ... query; None: all). kept_states: recurrent
    states that a sequence writes (1: the last one; all for a verification that may roll back to any token).
    topk_reuse: share of an indexer's choice that the next query token of the sequence chooses again and does
    not read again. longer_tokens: tokens by which the longest context exceeds the mean; it delays kernels
    whose cache grows with the context. varying: whether sequences verify different numbers of tokens.
    """

    batch: Floats
    query: Floats
    context: Floats
    head_query: Floats | None = None
    independent_query: Floats | None = None
    kept_states: Floats = 1.0
    topk_reuse: float = 0.0
    longer_tokens: Floats = 0.0
    varying: bool = False

    @property
    def tokens(self) -> Floats:
        """Tokens of all sequences."""
        return self.batch * self.query

    @property
    def routed_query(self) -> Floats:
        """Tokens per sequence that route independently to experts."""
        return self.query if self.independent_query is None else self.independent_query
