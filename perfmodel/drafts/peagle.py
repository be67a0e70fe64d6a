"""P-EAGLE: an EAGLE-3 head with several layers drafts all tokens in one pass over masked positions."""

from perfmodel.drafts.eagle import OWN_VOCAB, Eagle, few_layers
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec

LAYERS = 4
"""Layers of the published heads (arXiv 2602.01469)."""


class PEagle(Eagle):
    """A head of `layers` dense layers with their own cache.

    The shape of the layers is that of the target's layers, or that of the head's own config.json. For each
    sequence, a pass processes the last token and gamma - 1 masks. The rest is as in EAGLE-3.
    """

    source = "Hui et al. 2026 (P-EAGLE), arXiv 2602.01469"
    example = "peagle:layers=4,features=3"
    limits = {"layers": (1, 64)}
    in_one_pass = True

    features: int = 3
    layers: int = LAYERS

    def query(self, gamma: Floats) -> Floats:
        """The number of query tokens, one per drafted token: the last token and gamma - 1 masks."""
        return gamma

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.kind

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The head as a model. Raises InputError for a vocabulary larger than the target's."""
        vocab = options.get("vocab", min(OWN_VOCAB, target.vocab_size))
        return few_layers(target, cls.kind, options.get("layers", LAYERS), vocab)
