"""The shape of one pass: the token counts on which the work of its operations depends."""

from perfmodel.immutable import Immutable
from perfmodel.operations import Floats


class PassShape(Immutable):
    """A pass in which each of `batch` sequences runs `query` new tokens after `context` cached tokens. The
    fields broadcast.

    - head_query: number of tokens per sequence that the LM head processes. It is 1 in prefill. None means
      all.
    - independent_query: number of tokens per sequence that are routed independently to experts (1 ... query).
      None means all.
    - kept_states: number of recurrent states that a sequence writes. 1 means only the last state. A
      verification that may roll back to any token writes all states.
    - topk_reuse: share of an indexer's chosen tokens that the next query token of the sequence chooses again.
      These tokens are not read again.
    - longer_tokens: longest context minus mean context, in tokens. The longest context delays kernels whose
      cache grows with the context.
    - varying: whether sequences verify different numbers of tokens.
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
        """Number of new tokens of all sequences."""
        return self.batch * self.query

    @property
    def routed_query(self) -> Floats:
        """Number of tokens per sequence that are routed independently to experts."""
        return self.query if self.independent_query is None else self.independent_query
