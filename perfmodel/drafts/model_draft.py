"""A separate, smaller model drafts for the target (Leviathan et al. 2023), with a full or sparse cache of its own."""

from dataclasses import dataclass

from perfmodel.drafts.base import DraftFields


@dataclass(frozen=True, slots=True)
class ModelDraft(DraftFields):
    """Another model with the target's vocabulary; it reads the prompt itself and may use fewer devices."""

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self.model.name

    @property
    def views_target_cache(self) -> bool:
        """Never: its keys and values are its own."""
        return False

    @property
    def shares_weights(self) -> bool:
        """Never: its weights are its own."""
        return False

    @property
    def shares_prefill(self) -> bool:
        """Never: its cache is its own."""
        return False
