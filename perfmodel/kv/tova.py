"""TOVA (token omission via attention): the draft keeps the tokens to which the latest query attends most."""

from perfmodel.kv.base import SCORE_BYTES, KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class TOVA(KVMethod):
    """Keeps the tokens to which the latest query attends most. Each step evicts the token with the smallest
    attention, averaged over the heads.
    """

    source = "Oren et al. 2024, arXiv 2401.06104"
    example = "tova:1024"

    evicts = True

    budget: int

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Averages the scores of this step over the heads and finds the smallest mean. The means are written
        and read.
        """
        kept = self.attended_tokens(context)
        flops = kept * (layout.query_heads + 1.0)
        return Step(flops, 2.0 * SCORE_BYTES * kept, 1.0).times(self.beyond_budget(context))

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Scores the S keys with the last query of the prompt and keeps as many of the best tokens as the
        budget allows.
        """
        flops = context * (layout.score_flops + layout.query_heads)
        return Step(flops, context * (layout.key_bytes + 2.0 * SCORE_BYTES), 2.0).times(
            self.beyond_budget(context)
        )

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of one score per kept token. The tokens themselves are read in place."""
        return SCORE_BYTES * self.attended_tokens(context) * self.beyond_budget(context)
