"""PillarAttn: the scores of the verification pass select the draft's tokens."""

import numpy as np

from perfmodel.errors import InputError
from perfmodel.kv.base import SCORE_BYTES, KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class Pillar(KVMethod):
    """Reads the tokens with the highest attention in the last verification.

    The selection needs no other pass over the cache. The number of tokens is either a budget or a `share`
    of the context, in (0, 1].
    """

    source = "Zhao et al. 2025 (SparseSpec, PillarAttn), arXiv 2512.01278"
    example = "pillar,share=0.05"
    aliases = ("pillarattn", "sparsespec")

    budget: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.budget is None) == (self.share is None):
            raise InputError("pillar: must have a budget in tokens or a share of the context, and not both")
        if self.budget is not None:
            self.check_budget()
        self.check("share", self.share is None or 0 < self.share <= 1, "a number in (0, 1]")

    def attended_tokens(self, context: Floats) -> Floats:
        """share * S, or min(budget, S)."""
        if self.share is None:
            return super().attended_tokens(context)
        return context * self.share

    def beyond_budget(self, context: Floats) -> Floats:
        """1.0 where the draft skips at least one cached token, else 0.0."""
        if self.share is None:
            return super().beyond_budget(context)
        return np.greater(context, 0.0) * float(self.share < 1)

    def select_iteration(self, context: Floats, layout: KVLayout) -> Step:
        """Verification writes one score per token and KV head, to which each query head of the group adds
        its own with one FLOP. The selection reads the scores and writes a list of indices.
        """
        moved = SCORE_BYTES * layout.num_kv_heads * (2.0 * context + self.attended_tokens(context))
        return Step(context * layout.query_heads, moved, 1.0).times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the index list. The tokens themselves are read in place."""
        return SCORE_BYTES * self.attended_tokens(context) * layout.num_kv_heads * self.beyond_budget(context)
