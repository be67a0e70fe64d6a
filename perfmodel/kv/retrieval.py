"""TriForce's retrieval: the draft reads a packed cache of the best chunks."""

from perfmodel.kv.base import KVLayout, KVMethod, Step, gather
from perfmodel.operations import Floats


class Retrieval(KVMethod):
    """Once per `every` iterations, selects the chunks whose mean keys have the highest scores, and copies
    them into the draft's cache.

    - every: it has no published default and is required.
    - chunk: tokens per chunk. The default of 8 is from TriForce's released code.
    - keep_means: whether the means of chunks are stored. Otherwise, every rebuild reads all keys to compute
      them.
    """

    source = "Sun et al. 2024 (TriForce), arXiv 2404.11912"
    example = "retrieval:4096,every=16"
    aliases = ("triforce", "chunkretrieval")

    budget: int
    every: int
    chunk: int = 8
    keep_means: bool = True

    def __post_init__(self) -> None:
        self.check_budget()
        self.check("every", self.every >= 1, "1 or more iterations")
        self.check(
            "chunk",
            1 <= self.chunk <= self.budget,
            f"1 or more tokens and at most the budget ({self.budget})",
        )

    def select_iteration(self, context: Floats, layout: KVLayout) -> Step:
        """The work of one rebuild divided by `every`. A rebuild scores the stored means, or computes all
        means again, and then selects and copies chunks.
        """
        return self._rebuild(context, layout, self.keep_means).times(self.beyond_budget(context) / self.every)

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """The first build of the draft's cache, which reads all keys. The means are written if `keep_means`
        is true.
        """
        build = self._rebuild(context, layout, False)
        written = self._means(context, layout) if self.keep_means else 0.0
        return Step(build.flops, build.bytes + written, build.kernels).times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the packed copy, and of the means if `keep_means` is true."""
        means = self._means(context, layout) if self.keep_means else 0.0
        return (self.read_bytes(context, layout) + means) * self.beyond_budget(context)

    def _rebuild(self, context: Floats, layout: KVLayout, kept: bool) -> Step:
        average = 0.0 if kept else context * layout.num_kv_heads * layout.head_dim
        read = self._means(context, layout) if kept else context * layout.key_bytes
        copy = gather(float(self.budget), layout)
        return Step(
            context / self.chunk * layout.score_flops + average, read + copy.bytes, 2.0 + copy.kernels
        )

    def _means(self, context: Floats, layout: KVLayout) -> Floats:
        return context / self.chunk * layout.key_bytes
