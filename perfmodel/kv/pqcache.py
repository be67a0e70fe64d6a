"""PQCache: the draft selects tokens by product-quantised keys."""

from perfmodel.kv.base import KVLayout, KVMethod, Step
from perfmodel.operations import Floats


class PQCache(KVMethod):
    """Stores each key as `subvectors` codes of `bits` bits. Each step scores all codes and reads the tokens
    with the best scores.

    After the prompt, `iterations` iterations of k-means cluster the keys. All options are required, because
    none has a published default. The authors choose the codes for each benchmark, and the number of
    iterations by the time that is free during prefill. Reads of centroids are not counted, because centroids
    stay in the GPU's cache.
    """

    source = "Zhang et al. 2024, arXiv 2407.12820"
    example = "pqcache:1024,subvectors=2,bits=6,iterations=10"
    aliases = ("pq",)

    budget: int
    subvectors: int
    bits: int
    iterations: int

    def __post_init__(self) -> None:
        self.check_budget()
        self.check("subvectors", 1 <= self.subvectors <= 1024, "a whole number in [1, 1024]")
        self.check("bits", 1 <= self.bits <= 16, "a whole number of bits in [1, 16]")
        self.check(
            "iterations", 1 <= self.iterations <= 10_000, "a whole number of k-means iterations in [1, 10000]"
        )

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Scores the centroids, adds up `subvectors` table entries per head and key, and finds the best
        keys.
        """
        flops = layout.score_flops * 2.0**self.bits + context * layout.query_heads * self.subvectors
        return Step(flops, self._codes(context, layout), 3.0, context).times(self.beyond_budget(context))

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Runs k-means and writes the codes. Each iteration of k-means reads the keys and computes their
        distances to all centroids.
        """
        distances = 2.0 * context * layout.num_kv_heads * layout.head_dim * 2.0**self.bits
        moved = self.iterations * context * layout.key_bytes + self._codes(context, layout)
        return Step(self.iterations * distances, moved, 2.0 * self.iterations).times(
            self.beyond_budget(context)
        )

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Codes and centroids."""
        centroids = 2.0**self.bits * layout.key_bytes
        return (self._codes(context, layout) + centroids) * self.beyond_budget(context)

    def _codes(self, context: Floats, layout: KVLayout) -> Floats:
        return context * layout.num_kv_heads * self.subvectors * self.bits / 8.0
