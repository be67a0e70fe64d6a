"""Messages between devices."""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.operation import Kind, Op
from perfmodel.costs.split import Split
from perfmodel.errors import InputError
from perfmodel.operations import Floats
from perfmodel.specs import over_host
from perfmodel.specs.devices.links import Direction

MEASURED_HOST_LINK = 32e9
"""Host links of the servers behind the all-reduce tables over PCIe, in bytes/s each way: PCIe 4.0 x16."""


class MessageOp(Op):
    """A message between devices.

    - devices: number of devices that exchange a message.
    """

    cuts_graphs: ClassVar[bool] = True

    devices: int = 0

    def flops_s(self, group: DeviceGroup) -> Floats:
        return 0.0


class AllReduceOp(MessageOp):
    """All-reduces, or all-to-all messages that move as many bytes.

    - message_bytes: payload of each message.
    - norms: number of norms over the heads of all devices. The messages add up the sums of these norms.
    """

    kind: ClassVar[Kind] = "allreduce"
    added_up: ClassVar[tuple[str, ...]] = ("kernels", "norms")

    message_bytes: Floats = 0.0
    norms: Floats = 0.0

    def split(self, group: DeviceGroup) -> Split:
        sent_s = self.kernels * self._message_s(group)
        return (("comm", sent_s), ("fixed", self.norms * group.calibration.wide_norm_s.value)), None

    def lower_s(self, group: DeviceGroup) -> Floats:
        """Physical lower bound of the time in seconds: the payload crosses the link once."""
        return self.kernels * group.link_s(self.devices, self.message_bytes)

    @property
    def sent_bytes(self) -> Floats:
        return self.message_bytes

    def _message_s(self, group: DeviceGroup) -> Floats:
        """Calibrated time of one message. It is at least the time at the rate of the link."""
        link_s = group.link_s(self.devices, self.message_bytes)
        table = group.calibration.allreduce
        fabric = group.fabric
        in_node = table is not None and self.devices in table.knots
        if fabric and (self.devices > fabric.node_devices or not in_node):
            return np.maximum(fabric.allreduce_s(self.devices, self.message_bytes), link_s)
        return self._in_node_s(group, link_s)

    def _in_node_s(self, group: DeviceGroup, link_s: Floats) -> Floats:
        """Calibrated time of one message inside a node."""
        c = group.calibration
        table = c.allreduce
        faster = 1.0
        if table is not None and group.over_host and table.link == "device":
            table = over_host()  # the times of the calibration are those of direct links
            faster = (group.gpu.link_rate(self.devices) or MEASURED_HOST_LINK) / MEASURED_HOST_LINK
        if table is None:
            return link_s
        if self.devices not in table.knots:
            known = ", ".join(map(str, sorted(table.knots)))
            raise InputError(
                f"--tp: calibration {c.name} has all-reduce times for {known} devices, given {self.devices}; "
                "use one of these, --nodes, or --calibration ideal"
            )
        seconds = c.allreduce_multiplier.value * table.seconds(self.devices, self.message_bytes, faster)
        if group.over_host and not group.gpu.peer_access:
            through_memory_s = (
                c.shared_allreduce_s.value + self.message_bytes * c.shared_allreduce_byte_s.value
            )
            seconds = np.maximum(seconds, through_memory_s)
        return np.maximum(seconds, link_s)


class StageSendOp(AllReduceOp):
    """Messages to the next pipeline stage. Each message goes from one device to one other device."""

    def _message_s(self, group: DeviceGroup) -> Floats:
        link_s = group.link_s(self.devices, self.message_bytes)
        if group.fabric:
            return np.maximum(group.fabric.send_s(self.message_bytes), link_s)
        return self._in_node_s(group, link_s)


class LogitsGatherOp(AllReduceOp):
    """The all-gather of the logits of a sharded LM head. It takes half the time of an all-reduce, because an
    all-reduce consists of a reduce-scatter and an all-gather.

    - message_bytes: bytes of the logits of the whole vocabulary.
    """

    cuts_graphs: ClassVar[bool] = False

    def lower_s(self, group: DeviceGroup) -> Floats:
        """Physical lower bound of the time in seconds: each device lacks at least half of the logits, which
        cross the link once.
        """
        return AllReduceOp.lower_s(self, group) / 2.0

    def _message_s(self, group: DeviceGroup) -> Floats:
        return AllReduceOp._message_s(self, group) / 2.0


class ExchangeOp(MessageOp):
    """Messages that send tokens to the ranks of their experts (dispatch), or that send the results back
    (combine).

    - values: number of values that are sent per token.
    - tokens: number of tokens of a rank.
    """

    kind: ClassVar[Kind] = "exchange"

    direction: Direction = "dispatch"
    values: float = 0.0
    tokens: Floats = 1.0

    def split(self, group: DeviceGroup) -> Split:
        assert group.fabric is not None  # only a layout over several nodes exchanges tokens
        seconds = group.fabric.exchange_s(
            self.direction, self.devices, self.tokens, self.values, self.compute
        )
        return (("comm", self.kernels * seconds),), None

    def lower_s(self, group: DeviceGroup) -> Floats:
        """Physical lower bound of the time in seconds: the payload crosses the link once."""
        return self.kernels * group.link_s(self.devices, self.sent_bytes)

    @property
    def sent_bytes(self) -> Floats:
        """Payload of a message in bytes, with one byte per value. Results that are sent back may have more
        bytes per value.
        """
        return self.values * self.tokens
