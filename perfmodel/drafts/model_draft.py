"""A separate, smaller model drafts for the target (Leviathan et al. 2023), with a full or sparse cache of its own."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.drafts.base import DraftFields


@dataclass(frozen=True, slots=True)
class ModelDraft(DraftFields):
    """Another model with the target's vocabulary; it reads the prompt itself and may use fewer devices."""

    kind: ClassVar[str] = "model"
    source: ClassVar[str] = "Leviathan et al. 2023, arXiv 2211.17192"
    example: ClassVar[str] = "llama-3.2-1b"

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self.model.name
