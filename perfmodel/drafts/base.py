"""The interface of a draft: its number of passes, the operations of one pass, and its memory."""

from dataclasses import dataclass
from typing import ClassVar, dataclass_transform, final

import numpy as np

from perfmodel import costs
from perfmodel.costs.operation import Op
from perfmodel.errors import refuse
from perfmodel.kv.base import KVMethod
from perfmodel.operations import Cost, Floats
from perfmodel.specs import ModelSpec, Precision, Weights, weight_format

Limits = dict[str, tuple[int, int]]


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Draft:
    """The fields of every draft kind and the default behaviour, which is one drafted token per pass of a
    whole model.

    Each subclass becomes a frozen dataclass. The additional fields of a subclass are the options of its kind.

    A draft of gamma tokens needs `passes(gamma)` passes, each with `query(gamma)` query tokens per sequence.

    - kind: name of the kind on the command line, and of its file.
    - source: the paper or code that describes it.
    - example: a value of ``--draft`` that works for any target.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    example: ClassVar[str]
    limits: ClassVar[Limits] = {}
    """The smallest and the largest value of each option."""
    in_one_pass: ClassVar[bool] = False
    """Whether one pass drafts all tokens."""
    views_target_cache: ClassVar[bool] = False
    """Whether the draft reads the target's cache and stores only `kv.stored_bytes` itself."""
    reads_cache: ClassVar[bool] = True
    """Whether the draft's passes read a KV cache, which the engine prepares for each pass. If they do not,
    only the KV method `full` is accepted.
    """
    named_model: ClassVar[bool] = False
    """Whether the user names the draft model, as in ``NAME`` or ``KIND:NAME``."""
    has_checkpoint: ClassVar[bool] = False
    """Whether the draft model is a checkpoint with its own formats."""

    varying_lengths: ClassVar[bool] = False
    """Whether sequences of one batch draft different numbers of tokens. Their verification then fits no CUDA
    graph of equal lengths (vLLM, v1/worker/gpu_model_runner.py, uniform_decode).
    """
    launched_by_host: ClassVar[bool] = True
    """Whether the host launches the attention of such drafts, if the engine has no full CUDA graphs for
    them.
    """
    starts_from_features: ClassVar[bool] = False
    """Whether the first pass of the draft takes the target's hidden states of the previous token. No cache
    contains these states, so an engine computes the last cached block of a prefix again.
    """

    model: ModelSpec
    kv: KVMethod
    tensor_parallel: int
    precision: Precision

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
        cls.kind = cls.__module__.rpartition(".")[2]

    def __post_init__(self) -> None:
        """Raises InputError for an option outside its limits."""
        for each in type(self).__mro__:
            for option, (least, most) in vars(each).get("limits", {}).items():
                value = getattr(self, option)
                if not least <= value <= most:
                    allowed = f"a whole number from {least} to {most}, as in {self.example}"
                    raise refuse("--draft", f"{self.kind}: {option}", allowed, value)

    @classmethod
    def own_weights(cls, model: ModelSpec) -> Weights | None:
        """Weight formats of the draft's own checkpoint. The result is None if the draft is a part of the
        target's checkpoint.
        """
        return weight_format(model.weights) if cls.has_checkpoint else None

    @classmethod
    def like_target(cls, target: Weights) -> Weights:
        """Weight formats of a draft that is quantised like the target. By default, these are the target's
        formats.
        """
        return target

    @classmethod
    def suits(cls, target: ModelSpec) -> bool:
        """Whether `advise` and `--draft` may use this kind for this target without options. The default is
        True.
        """
        return True

    @property
    def name(self) -> str:
        """The name of the draft in answers. By default, it is the name of the kind."""
        return self.kind

    @property
    def reads_inner_layers(self) -> bool:
        """Whether the draft takes hidden states of the target's inner layers. The default is False."""
        return False

    @property
    def shares_weights(self) -> bool:
        """Whether the draft runs the target's weights and needs no memory for its own. The default is
        False.
        """
        return False

    @property
    def shares_prefill(self) -> bool:
        """Whether the target's prefill and `kv.setup` suffice, so the draft needs no prefill of its own. The
        default is False.
        """
        return False

    @property
    def max_gamma(self) -> int | None:
        """The longest possible draft in tokens. The result is None if there is no limit."""
        return None

    def passes(self, gamma: Floats) -> Floats:
        """Number of draft passes per iteration. It is one per drafted token, or one in total with
        `in_one_pass`. At gamma 0, it is zero.
        """
        return np.minimum(gamma, 1.0) if self.in_one_pass else gamma

    def query(self, gamma: Floats) -> Floats:
        """Number of query tokens per sequence in one pass."""
        return 1.0

    @final
    def ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """Operations of one pass without KV selection: those of the kind (`kind_ops`), and those that an
        engine adds to every pass that reads a cache.

        - shard: the share of the draft model on one device.
        """
        ops = self.kind_ops(shard, batch, context, query)
        if self.reads_cache:
            ops.append(costs.cache_upkeep(shard, batch, context, self.kv))
            if self.launched_by_host:
                ops.append(costs.host_launches(shard, query))
        return ops

    def kind_ops(self, shard: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """Operations of one pass that depend on the kind. By default, these are all operations of the
        model.
        """
        return costs.model_ops(shard, costs.PassShape(batch, query, context), self.kv)

    def iteration_ops(self, shard: costs.Shard, batch: Floats) -> list[Op]:
        """Operations that run once per iteration outside the draft passes, for one token per sequence. By
        default, there are none.
        """
        return []

    def own_weight_bytes(self, shard: costs.Shard) -> float:
        """Bytes of weights on one device in addition to the target's."""
        return 0.0 if self.shares_weights else shard.stored_weight_bytes


def layer_bytes(shard: costs.Shard) -> float:
    """Bytes of the weights of all layers on one device: GEMMs, all experts and norms."""
    norms = shard.model.norm_params * shard.precision.activation_bytes
    return sum(op.weight_bytes for op in shard.linears) + shard.expert_bytes + norms


def dense(
    name: str,
    shard: costs.Shard,
    inputs: float,
    outputs: float,
    tokens: Floats,
    copies: Floats = 1.0,
    tensor: str = "",
) -> costs.GemmOp:
    """A projection outside a draft's layers. Devices share its outputs.

    - copies: number of separate weight matrices. Each matrix is applied to `tokens` tokens.
    - tensor: name of the tensor whose number format the projection has. By default, it has the format of the
      layers.
    """
    n = shard.tensor_parallel
    form = shard.precision.weights.of(tensor)
    act = shard.precision.activation_bytes
    weights = inputs * outputs / n
    cost = Cost(
        2.0 * weights * tokens * copies,
        weights * form.bytes_per_value * copies,
        0.0,
        (inputs * (form.input_bytes or act) + outputs / n * act) * tokens * copies,
    )
    return costs.GemmOp.of_format(name, copies, cost, form, rows=tokens)
