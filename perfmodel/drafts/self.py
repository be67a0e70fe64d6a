"""Self-speculation: the target's own weights over a sparse view of its cache (MagicDec, arXiv 2408.11049)."""

from perfmodel.drafts.base import Draft


class SelfDraft(Draft):
    """The target drafts for itself. Every draft step still reads all weights.

    target_weights: name of the target's weight format. A draft in another format keeps a second copy of
    the weights.
    """

    source = "Sadhukhan et al. 2024 (MagicDec), arXiv 2408.11049"
    example = "self"
    launched_by_host = False  # the target's own CUDA graphs hold its passes
    views_target_cache = True  # its keys and values are the target's

    target_weights: str = "bf16"

    @property
    def shares_weights(self) -> bool:
        """True unless the draft runs at another precision than the target."""
        return self.precision.weights.name == self.target_weights

    @property
    def shares_prefill(self) -> bool:
        """True unless the method attends differently from the first prompt token on."""
        return not self.kv.needs_own_prefill
