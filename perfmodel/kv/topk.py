"""Exact top-k attention: the draft scores all keys and reads the best tokens."""

from perfmodel.kv.base import KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class TopK(KVMethod):
    """Scores every key in every step and reads the best tokens. The draft has the acceptance of a perfect
    selection, but it still reads all keys.

    Attention counts the keys and values of the selected tokens. Selection counts the keys of all other
    tokens. The sum is the bytes of S/2 + budget/2 tokens. For MLA, the sum is the bytes of S tokens, because
    key and value are the same vector.
    """

    source = "Gupta et al. 2021, arXiv 2106.06899"
    example = "topk:1024"
    aliases = ("exacttopk", "oracle")

    budget: int

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Scores the keys of the tokens that are not selected, and finds the best tokens."""
        rest = context - self.attended_tokens(context)
        beyond = self.beyond_budget(context)
        return Step(rest * layout.score_flops, rest * layout.key_bytes, 2.0 * beyond, context * beyond)
