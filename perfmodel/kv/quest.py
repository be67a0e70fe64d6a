"""Quest: the draft selects pages of the cache by the query."""

from perfmodel.kv.base import KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class Quest(KVMethod):
    """For each page, stores the minimum and the maximum of the keys per channel. From these bounds, each
    step estimates the scores of the pages, and reads the pages with the best scores.

    The default of 16 tokens per page is from Tang et al. 2024.
    """

    source = "Tang et al. 2024, arXiv 2406.10774"
    example = "quest:1024,page=16"

    budget: int
    page: int = 16

    def __post_init__(self) -> None:
        self.check_budget()
        self.check(
            "page", 1 <= self.page <= self.budget, f"1 or more tokens and at most the budget ({self.budget})"
        )

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Reads the bounds of all pages, scores both bounds of each page, and finds the best pages."""
        pages = context / self.page
        flops = 2.0 * layout.score_flops * pages
        return Step(flops, self._bounds(context, layout), 2.0, pages).times(self.beyond_budget(context))

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Reads the keys once, compares each key twice, and writes the bounds. The updates for later tokens
        are not counted.
        """
        flops = 2.0 * context * layout.num_kv_heads * layout.head_dim
        moved = context * layout.key_bytes + self._bounds(context, layout)
        return Step(flops, moved, 1.0).times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """The bounds of all pages."""
        return self._bounds(context, layout) * self.beyond_budget(context)

    def _bounds(self, context: Floats, layout: KVLayout) -> Floats:
        return context / self.page * 2.0 * layout.key_bytes
