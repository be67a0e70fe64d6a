"""The base classes of the operations of a forward pass. An operation counts its FLOPs and bytes, and divides
its calibrated time into loading, computing and launches. Each kind of operation is a class in `costs.kinds`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.split import Split
from perfmodel.immutable import AbstractImmutable
from perfmodel.operations import Cost, Floats

Kind = Literal["linear", "attention", "small", "allreduce", "exchange", "upkeep", "host"]


class Op(AbstractImmutable):
    """One operation of a pass, summed over its layers.

    - kernels: number of kernel launches in one pass.
    - compute: the number format in which the operation computes, which determines its peak FLOP/s.
    """

    kind: ClassVar[Kind]
    """The kind of work that causes the cost, by the name that calibrations use."""
    added_up: ClassVar[tuple[str, ...]] = ("kernels",)
    """Fields that add up over micro-batches. The other fields are sizes of one run."""
    cuts_graphs: ClassVar[bool] = False
    """Whether the operation is launched separately if the rest of a prompt pass runs as a CUDA graph."""

    name: str
    kernels: Floats
    cost: Cost
    compute: str = "bf16"

    @abstractmethod
    def split(self, group: DeviceGroup) -> Split:
        """Calibrated seconds of the operation with all its kernels, by term. Only this method uses the
        constants of the operation's kind.
        """

    def lower_s(self, group: DeviceGroup) -> Floats:
        """Physical lower bound of the time in seconds: max(FLOPs/peak, bytes/bandwidth)."""
        return np.maximum(self.flops_s(group), self.cost.bytes * group.byte_s)

    def flops_s(self, group: DeviceGroup) -> Floats:
        """Seconds of the operation's FLOPs at the peak rate."""
        return self.cost.flops / group.gpu.peak_flops(self.compute)

    @property
    def sent_bytes(self) -> Floats:
        """Payload in bytes of a message to other devices. The result is 0 for other operations."""
        return 0.0

    @property
    def prompt_kernels(self) -> Floats:
        """Number of kernel launches in a pass that reads a prompt."""
        return self.kernels

    def sum_of(self, values: Floats) -> Floats:
        """The sum of the values of all operations that this object represents. An object represents one
        operation, unless operations are stacked.
        """
        return values

    def repeated(self, count: int) -> "Op":
        """The counts of this operation if it runs `count` times in a pass."""
        c = self.cost
        cost = Cost(c.flops * count, c.weight_bytes * count, c.kv_bytes * count, c.activation_bytes * count)
        return self.replace(cost=cost, **{name: getattr(self, name) * count for name in self.added_up})


class RatedOp(Op):
    """An operation with calibrated rates of loading and computing."""

    @abstractmethod
    def rates(self, group: DeviceGroup) -> tuple[Floats, Floats]:
        """Calibrated seconds per byte and seconds per FLOP."""


def over(ops: Sequence[Op], value: Callable[[Op], Floats]) -> Floats:
    """The sum of `value(op)` over all operations."""
    total: Floats = 0.0
    for op in ops:
        total = total + op.sum_of(value(op))
    return total


class Work(NamedTuple):
    """The bytes and FLOPs of a pass on one device."""

    moved_bytes: Floats
    flops: Floats


def work(ops: Sequence[Op]) -> Work:
    """The bytes and FLOPs of a pass, summed over its operations."""
    return Work(over(ops, attrgetter("cost.bytes")), over(ops, attrgetter("cost.flops")))
