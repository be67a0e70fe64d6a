"""How devices share a model: the degrees within a group of devices, and the layout of several nodes."""

from perfmodel.immutable import Immutable


class Degrees(Immutable):
    """The numbers of parts into which the devices of a group divide a model.

    tensor_parallel: all devices of the group. groups: number of data-parallel attention groups, each with
    all of attention for its own sequences; 1 without them. expert_groups: expert-parallel groups, each
    with whole experts. exchanges: whether tokens leave their attention group only for routed experts; each
    group then computes all other layers for its own sequences.
    """

    tensor_parallel: int
    groups: int = 1
    expert_groups: int = 1
    exchanges: bool = False

    @property
    def attend(self) -> int:
        """Number of devices that share the attention of a sequence."""
        return self.tensor_parallel // self.groups

    @property
    def beside_attention(self) -> int:
        """Number of devices that share a matrix of other layers, such as a dense MLP or the LM head."""
        return self.attend if self.exchanges else self.tensor_parallel

    @property
    def gathers(self) -> bool:
        """Whether layers other than attention run on the tokens of all groups."""
        return self.groups > 1 and not self.exchanges


class RackLayout(Immutable):
    """The part of a layout of several nodes that `Degrees` does not contain.

    exchanges: whether models with experts and groups have `Degrees.exchanges`. imbalance: tokens of the
    group of experts with the most tokens, divided by the mean over groups. For the other fields see
    `Shard` and `experts`.
    """

    exchanges: bool = False
    redundant_experts: int = 0
    imbalance: float = 1.0
    stages: int = 1
    micro_batches: int = 1


ONE_BOX = RackLayout()
"""One group of devices of one server."""
