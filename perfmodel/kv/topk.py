"""Exact top-k attention."""

from perfmodel.kv.base import KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class TopK(KVMethod):
    """Scores every key in every step and reads the best tokens. It shows the acceptance of a perfect
    selection and saves no time.

    Keys and values of the chosen tokens count as the attention's reads, keys of all others as selection:
    together the bytes of S/2 + budget/2 tokens. MLA's latent is key and value at once, so all of it is read.
    """

    source = "Gupta et al. 2021, arXiv 2106.06899"
    example = "topk:1024"
    aliases = ("exacttopk", "oracle")

    budget: int

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Scores the keys that are not chosen in the end, and finds the best."""
        rest = context - self.attended_tokens(context)
        beyond = self.beyond_budget(context)
        return Step(rest * layout.score_flops, rest * layout.key_bytes, 2.0 * beyond, context * beyond)
