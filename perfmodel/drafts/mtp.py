"""Multi-token prediction: a layer trained with the target that predicts one token further, run again or stacked."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel import costs
from perfmodel.drafts.base import DraftFields, dense
from perfmodel.drafts.eagle import one_layer
from perfmodel.errors import refuse
from perfmodel.ops import Floats, Op
from perfmodel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class MTP(DraftFields):
    """A layer of the target's kind (experts included) behind a projection of two widths to one.

    modules: layers that are kept. 1 is run again for every drafted token (DeepSeek-V3 as served); more are stacked,
    one per drafted token, and no draft is longer than that. Embedding and LM head are the target's.
    """

    kind: ClassVar[str] = "mtp"
    source: ClassVar[str] = "DeepSeek-AI 2024 (DeepSeek-V3), arXiv 2412.19437, section 2.2"
    example: ClassVar[str] = "mtp"

    modules: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.modules <= 64:
            raise refuse("--draft", "mtp: modules", "a whole number from 1 to 64", self.modules)

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The module as a model of one layer."""
        return one_layer(target, cls.kind, keep_experts=True)

    @property
    def max_gamma(self) -> int | None:
        """One token per stacked module; no end where one is run again."""
        return None if self.modules == 1 else self.modules

    def ops(self, part: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The projection, the layer and the target's LM head."""
        hidden = part.model.hidden_size
        into = dense("mtp projection", part, 2 * hidden, hidden, batch * query)
        return [into, *DraftFields.ops(self, part, batch, context, query)]

    def own_weight_bytes(self, part: costs.Shard) -> float:
        """All modules: layer with all its experts, norms and projection."""
        hidden, form = part.model.hidden_size, part.precision
        into = 2 * hidden * hidden / part.tensor_parallel * form.weights.bytes_per_value
        experts = part.experts.num_experts * part.experts.expert_weight_bytes if part.experts else 0.0
        layer = sum(op.weight_bytes for op in part.linears) + experts + part.model.norm_params * form.activation_bytes
        return self.modules * (layer + into)
