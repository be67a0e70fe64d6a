"""H2O: a draft keeps the tokens with the largest accumulated attention."""

from perfmodel.kv.base import SCORE_BYTES, KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class H2O(KVMethod):
    """Keeps the latest tokens and those with the largest accumulated attention. Each step evicts the token
    with the smallest accumulated attention.

    Each step reads and writes one running score per kept token and KV head.
    """

    source = "Zhang et al. 2023, arXiv 2306.14048"
    example = "h2o:1024"
    aliases = ("heavyhitter",)

    evicts = True

    budget: int

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Adds the attention of this step to the accumulated scores and finds the smallest one. The scores
        are read and written.
        """
        kept = self.attended_tokens(context)
        flops = kept * (layout.query_heads + layout.num_kv_heads)
        return Step(flops, 2.0 * SCORE_BYTES * kept * layout.num_kv_heads, 1.0).times(
            self.beyond_budget(context)
        )

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Column sums of the prompt's causal attention.

        The sums are computed again, because a fused attention kernel keeps no scores in prefill. FLOPs: half
        of a score matrix, which is S^2/2 pairs. Bytes: the keys are read once, because tiles stay in the
        GPU's cache, and the sums are written.
        """
        flops = 0.5 * context * context * layout.score_flops
        moved = context * (layout.key_bytes + SCORE_BYTES * layout.num_kv_heads)
        return Step(flops, moved, 2.0).times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """The scores of the kept tokens. The keys and values of these tokens are read in place, without a
        copy.
        """
        return SCORE_BYTES * self.attended_tokens(context) * layout.num_kv_heads * self.beyond_budget(context)
