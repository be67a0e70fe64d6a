"""How devices share a model: the parallel degrees within a group of devices, and the layout over several
nodes.
"""

from perfmodel.immutable import Immutable


class Degrees(Immutable):
    """The numbers of parts into which the devices of a group divide a model.

    - tensor_parallel: number of all devices in the group.
    - groups: number of data-parallel attention groups. Each group computes the whole attention of its own
      sequences. It is 1 without such groups.
    - expert_groups: number of expert-parallel groups. Each group holds whole experts.
    - exchanges: whether tokens leave their attention group only for routed experts. If so, each group
      computes all other layers for its own sequences.
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
    """The part of a layout over several nodes that is not in `Degrees`. For the fields that are not listed
    here, see `Shard` and `experts`.

    - exchanges: the value of `Degrees.exchanges` for models with experts and attention groups.
    - imbalance: number of tokens of the expert group with the most tokens, divided by the mean over groups.
    """

    exchanges: bool = False
    redundant_experts: int = 0
    imbalance: float = 1.0
    stages: int = 1
    micro_batches: int = 1

    def __str__(self) -> str:
        """The fields that differ from `ONE_BOX`, in words."""
        words = {
            f"{self.stages} pipeline stages": self.stages > 1,
            f"{self.micro_batches} micro-batches": self.micro_batches > 1,
            f"{self.redundant_experts} redundant experts": self.redundant_experts > 0,
            f"expert imbalance {self.imbalance:.2f}": self.imbalance != 1.0,
            "groups exchange tokens": self.exchanges,
        }
        return ", ".join(word for word, differs in words.items() if differs)


ONE_BOX = RackLayout()
"""The layout of one group of devices in one server."""
