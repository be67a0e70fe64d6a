"""EAGLE heads: one decoder layer on the target's last features, run token after token."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel import costs
from perfmodel.drafts.base import DraftFields, dense
from perfmodel.errors import InputError, refuse
from perfmodel.ops import Floats, Op
from perfmodel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Eagle(DraftFields):
    """One dense layer of the target's shape with a cache of its own, behind a projection.

    features: hidden states of the target projected to one width with the token's embedding; 1 in EAGLE and
    EAGLE-2, 3 in EAGLE-3.
    vocab: tokens that a head of its own can draft; 0 uses the target's LM head (EAGLE, EAGLE-2), which every draft
    step then reads whole; EAGLE-3 heads commonly keep 32000. The embedding is the target's.
    The first pass of an iteration also takes in the accepted tokens; it is counted as one token, as the others, which
    leaves out under 1 % of an iteration (docs/decisions.md).
    """

    kind: ClassVar[str] = "eagle"
    source: ClassVar[str] = "Li et al. 2024, arXiv 2401.15077; EAGLE-3: Li et al. 2025, arXiv 2503.01840"
    example: ClassVar[str] = "eagle:features=3,vocab=32000"

    features: int = 1
    vocab: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.features <= 16:
            raise refuse("--draft", "eagle: features", "a whole number from 1 to 16", self.features)

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The head as a model of one layer. Raises InputError for a vocabulary beyond the target's."""
        return one_layer(target, cls.kind, options.get("vocab", 0))

    def ops(self, part: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The projection, the layer and the LM head."""
        hidden = part.model.hidden_size
        into = dense("eagle projection", part, (self.features + 1) * hidden, hidden, batch * query)
        return [into, *DraftFields.ops(self, part, batch, context, query)]

    def own_weight_bytes(self, part: costs.Shard) -> float:
        """Layer, norms, projection, and the LM head where it is its own."""
        hidden = part.model.hidden_size
        into = (self.features + 1) * hidden * hidden / part.tensor_parallel * part.precision.weights.bytes_per_value
        layers = sum(op.weight_bytes for op in part.linears) + part.model.norm_params * part.precision.activation_bytes
        return layers + into + (part.lm_head.weight_bytes if self.vocab else 0.0)


def one_layer(target: ModelSpec, name: str, vocab: int = 0, keep_experts: bool = False) -> ModelSpec:
    """The target cut to one layer without sliding window, and a vocabulary of `vocab` tokens (0: the target's)."""
    if vocab and not 1 < vocab <= target.vocab_size:
        raise InputError(f"--draft: {name}: vocab must be 2 to {target.vocab_size} ({target.name}), given {vocab}")
    moe = target.moe.model_copy(update={"first_dense_layers": 0}) if target.moe and keep_experts else None
    changed = {
        "name": f"{name} of {target.name}",
        "num_hidden_layers": 1,
        "num_sliding_layers": 0,
        "moe": moe,
        "vocab_size": vocab or target.vocab_size,
        "published": None,
    }
    return target.model_copy(update=changed)
