"""A separate, smaller model drafts for the target (Leviathan et al. 2023), with its own full or sparse
cache.
"""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.drafts.base import Draft


@dataclass(frozen=True, slots=True)
class ModelDraft(Draft):
    """Another model with the target's vocabulary; it reads the prompt itself and may use fewer devices."""

    source: ClassVar[str] = "Leviathan et al. 2023, arXiv 2211.17192"
    example: ClassVar[str] = "llama-3.2-1b"
    named_model = True
    has_checkpoint = True

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self.model.name
