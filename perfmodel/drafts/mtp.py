"""Multi-token prediction (MTP): a layer that was trained with the target drafts the token after the target's
next token. Either one layer runs once per drafted token, or each drafted token has its own layer.
"""

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.drafts.base import Draft, dense, layer_bytes
from perfmodel.drafts.eagle import few_layers
from perfmodel.errors import refuse
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec, Weights, weight_format


class MTP(Draft):
    """A layer like those of the target, with experts if the target has them.

    A projection from twice the hidden width to the hidden width comes first. Embedding and LM head are the
    target's.

    - modules: number of such layers in memory, at most the target's `num_nextn_predict_layers`. A single
      layer runs again for every drafted token (DeepSeek-V3 in serving engines). With several layers, each
      drafts one token, so their number limits the draft length.
    - target_width: for a separate assistant model (Gemma 4), the width of the target's hidden states. It is 0
      for an MTP layer.

    An assistant has its own LM head and number formats. Each of its passes ends with a projection to the
    target's width.
    """

    source = "DeepSeek-AI 2024 (DeepSeek-V3), arXiv 2412.19437, section 2.2"
    example = "mtp:modules=1"
    limits = {"modules": (1, 64)}
    starts_from_features = True

    modules: int = 1
    target_width: int = 0

    @classmethod
    def own_weights(cls, model: ModelSpec) -> Weights | None:
        """The weight formats of an assistant model. The result is None for an MTP layer, which is a part of
        the target's checkpoint.
        """
        return weight_format(model.weights) if model.shared_kv_layers else None

    @classmethod
    def like_target(cls, target: Weights) -> Weights:
        """The weight format that the target's checkpoint states for the MTP layer, or else the formats of the
        target.
        """
        if "mtp" in target.by_part():
            return Weights(target.of("mtp"))
        return target

    @classmethod
    def suits(cls, target: ModelSpec) -> bool:
        """Whether the target's checkpoint, or a separate head published for it, is known to have such a
        layer.
        """
        return bool(target.num_nextn_predict_layers or target.mtp_head)

    @classmethod
    def shape(cls, target: ModelSpec, options: dict[str, int]) -> ModelSpec:
        """The MTP module as a model of one layer. Raises InputError for more modules than the target's
        checkpoint has.
        """
        most = target.num_nextn_predict_layers
        modules = options.get("modules", 1)
        if most is not None and modules > most:
            layers = f"the {most} multi-token prediction layers of {target.name}"
            raise refuse(
                "--draft",
                "mtp: modules",
                f"at most {layers}" if most else f"left out: {target.name} has none",
                modules,
            )
        return few_layers(target, cls.kind, 1, keep_experts=True)

    @property
    def max_gamma(self) -> int | None:
        """The number of modules. The result is None (no limit) for a single module."""
        return None if self.modules == 1 else self.modules

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """The operations of the projections, the layer and the LM head."""
        return [*self._projections(shard, batch * query), *super().kind_ops(shard, batch, context, query)]

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of all modules: each has a layer with all its experts, norms and projections. An assistant
        also has its LM head.
        """
        into = sum(float(each.cost.weight_bytes) for each in self._projections(shard, 1.0))
        head = shard.lm_head.weight_bytes if self.target_width else 0.0
        return self.modules * (layer_bytes(shard) + into) + head

    def _projections(self, shard: costs.Shard, tokens: Floats) -> list[Op]:
        hidden = shard.model.hidden_size
        into = dense("mtp projection", shard, 2 * (self.target_width or hidden), hidden, tokens)
        if self.target_width:
            return [into, dense("mtp projection back", shard, hidden, self.target_width, tokens)]
        return [into]
