"""A separate, smaller model that drafts for the target (Leviathan et al. 2023). The draft model has its own
cache, full or sparse.
"""

from perfmodel.drafts.base import Draft


class ModelDraft(Draft):
    """Another model with the target's vocabulary. The draft model processes the prompt itself and may run on
    fewer devices.
    """

    source = "Leviathan et al. 2023, arXiv 2211.17192"
    example = "llama-3.2-1b"
    named_model = True
    has_checkpoint = True

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self.model.name
