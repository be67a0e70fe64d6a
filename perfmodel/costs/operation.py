"""Base classes of the operations of a forward pass, which have counts and calibrated seconds by term. Each
kind of operation is a class in `costs.kinds`.
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
    """One operation, summed over its layers.

    kernels: launches in one pass. compute: the peak at which it runs.
    """

    kind: ClassVar[Kind]
    """The work that causes its cost, as the constants of a calibration name it."""
    added_up: ClassVar[tuple[str, ...]] = ("kernels",)
    """Counts that add up over micro-batches; the others are sizes of one run."""
    cuts_graphs: ClassVar[bool] = False
    """Whether it is launched by itself if the rest of a pass over prompts runs as a CUDA graph."""

    name: str
    kernels: Floats
    cost: Cost
    compute: str = "bf16"

    @abstractmethod
    def split(self, group: DeviceGroup) -> Split:
        """Calibrated seconds of the op with all its kernels, by term. The constants of its kind are used
        only here.
        """

    def lower_s(self, group: DeviceGroup) -> Floats:
        """Physical lower bound: max(FLOPs/peak, bytes/bandwidth)."""
        return np.maximum(self.flops_s(group), self.cost.bytes * group.byte_s)

    def flops_s(self, group: DeviceGroup) -> Floats:
        """Seconds of the FLOPs at the peak."""
        return self.cost.flops / group.gpu.peak_flops(self.compute)

    @property
    def sent_bytes(self) -> Floats:
        """Payload of a message to other devices."""
        return 0.0

    @property
    def prompt_kernels(self) -> Floats:
        """Launches in a pass that reads a prompt."""
        return self.kernels

    def sum_of(self, values: Floats) -> Floats:
        """The sum over the ops that this one represents: a single op, except for stacked ops."""
        return values

    def repeated(self, count: int) -> "Op":
        """The op, run `count` times in a pass."""
        c = self.cost
        cost = Cost(c.flops * count, c.weight_bytes * count, c.kv_bytes * count, c.activation_bytes * count)
        return self.replace(cost=cost, **{name: getattr(self, name) * count for name in self.added_up})


class RatedOp(Op):
    """An operation that loads and computes at its own rates."""

    @abstractmethod
    def rates(self, group: DeviceGroup) -> tuple[Floats, Floats]:
        """Calibrated seconds per byte and per FLOP."""


def over(ops: Sequence[Op], value: Callable[[Op], Floats]) -> Floats:
    """The sum of `value(op)` over ops."""
    total: Floats = 0.0
    for op in ops:
        total = total + op.sum_of(value(op))
    return total


class Work(NamedTuple):
    """The bytes and FLOPs of a pass on one device."""

    moved_bytes: Floats
    flops: Floats


def work(ops: Sequence[Op]) -> Work:
    """Bytes and FLOPs of a pass."""
    return Work(over(ops, attrgetter("cost.bytes")), over(ops, attrgetter("cost.flops")))
