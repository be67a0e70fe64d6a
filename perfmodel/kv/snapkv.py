"""SnapKV: the draft keeps the prompt tokens to which the end of the prompt attends most."""

import numpy as np

from perfmodel.kv.base import SCORE_BYTES, KVLayout, KVMethod, Step, gather
from perfmodel.operations import Floats


class SnapKV(KVMethod):
    """After the prompt, copies the last `window` tokens and the tokens to which these attend most.

    The scores are pooled over `kernel` neighbours before the selection. The defaults (window 32 and kernel 7)
    are from the LongBench experiments of Li et al. 2024.

    - generated: number of tokens generated after the prompt. They are appended to the copy, and the draft
      reads them too.
    """

    source = "Li et al. 2024, arXiv 2404.14469"
    example = "snapkv:2049"
    aliases = ("snap",)

    budget: int
    window: int = 32
    kernel: int = 7
    generated: int = 0

    def __post_init__(self) -> None:
        self.check("window", self.window >= 1, "1 or more tokens")
        self.check("kernel", self.kernel >= 1 and self.kernel % 2 == 1, "an odd number, 1 or more")
        self.check("generated", self.generated >= 0, "0 or more tokens")
        self.check_budget(above=self.window)

    def attended_tokens(self, context: Floats) -> Floats:
        """min(budget + generated, S)."""
        return np.minimum(float(self.budget + self.generated), context)

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Scores S keys with the queries of the window, sums the scores over the window and pools them. The
        tokens with the best scores are copied.

        The keys are read once. The scores are summed over the window before they are written, so there is one
        score per query head and token. The kernel writes the scores, the pooling reads and writes them, and
        the selection reads them.
        """
        scores = context * layout.query_heads
        flops = context * layout.score_flops * self.window + scores * (self.window + self.kernel)
        score = Step(flops, context * layout.key_bytes + 4.0 * SCORE_BYTES * scores, 3.0)
        copy = gather(float(self.budget), layout)
        both = Step(score.flops, score.bytes + copy.bytes, score.kernels + copy.kernels)
        return both.times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the packed copy with the appended tokens."""
        return self.read_bytes(context, layout) * self.beyond_budget(context)

    def own_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the packed copy only, because the other prompt tokens are dropped."""
        return self.read_bytes(context, layout)
