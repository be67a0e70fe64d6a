"""A separate, smaller model drafts for the target (Leviathan et al. 2023), with a full or sparse cache of its own."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.drafts.base import Draft
from perfmodel.specs.formats import Weights, weight_format
from perfmodel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class ModelDraft(Draft):
    """Another model with the target's vocabulary; it reads the prompt itself and may use fewer devices."""

    kind: ClassVar[str] = "model"
    source: ClassVar[str] = "Leviathan et al. 2023, arXiv 2211.17192"
    example: ClassVar[str] = "llama-3.2-1b"

    @classmethod
    def own_weights(cls, model: ModelSpec, target: Weights) -> Weights:
        """The draft model's own."""
        return weight_format(model.weights)

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self.model.name
