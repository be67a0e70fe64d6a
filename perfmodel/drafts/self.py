"""Self-speculation: the target drafts with its own weights and a sparse view of its cache (MagicDec, arXiv
2408.11049).
"""

from perfmodel.drafts.base import Draft


class SelfDraft(Draft):
    """The target drafts for itself. Every draft step therefore reads all weights.

    - target_weights: name of the target's weight format. A draft in another format keeps a second copy of the
      weights.
    """

    source = "Sadhukhan et al. 2024 (MagicDec), arXiv 2408.11049"
    example = "self"
    launched_by_host = False  # the target's own CUDA graphs hold its passes
    views_target_cache = True  # the draft reads the target's keys and values

    target_weights: str = "bf16"

    @property
    def shares_weights(self) -> bool:
        """Whether the draft has the target's weight format."""
        return self.precision.weights.name == self.target_weights

    @property
    def shares_prefill(self) -> bool:
        """Whether the draft uses the target's prefill. The result is false if the KV method needs the draft's
        own prefill.
        """
        return not self.kv.needs_own_prefill
