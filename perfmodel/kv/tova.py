"""Token omission via attention."""

from perfmodel.kv.base import SCORE_BYTES, KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class TOVA(KVMethod):
    """Keeps the tokens to which the latest query attends most. Each step evicts the weakest one by the mean
    over heads.
    """

    source = "Oren et al. 2024, arXiv 2401.06104"
    example = "tova:1024"

    evicts = True

    budget: int

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Average this step's scores over the heads (written, read) and find the smallest."""
        kept = self.attended_tokens(context)
        flops = kept * (layout.query_heads + 1.0)
        return Step(flops, 2.0 * SCORE_BYTES * kept, 1.0).times(self.beyond_budget(context))

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Score the S keys with the prompt's last query and keep the budget's best."""
        flops = context * (layout.score_flops + layout.query_heads)
        return Step(flops, context * (layout.key_bytes + 2.0 * SCORE_BYTES), 2.0).times(
            self.beyond_budget(context)
        )

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """One score per kept token; the tokens are read in place."""
        return SCORE_BYTES * self.attended_tokens(context) * self.beyond_budget(context)
