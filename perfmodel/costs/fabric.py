"""Times of messages between the devices of several nodes or of a rack. The times are read from tables for
each link and library.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import InputError
from perfmodel.operations import Floats
from perfmodel.specs.devices.links import Direction, Knots, LinkSpec, Messages

US = 1e-6
"""Seconds per microsecond, the unit of the tables."""


@dataclass(frozen=True)
class Fabric:
    """The links between the nodes of one instance (one copy of the model).

    - node_devices: number of devices in a node.
    - nodes: number of nodes.
    - waiting: time of an exchange in an engine, divided by its time in the table. It is above 1 because all
      ranks wait for the slowest rank.
    - overlap: share of the time of communication or of computing, whichever is shorter, that two
      micro-batches hide. It is 0 without micro-batches.
    """

    link: LinkSpec
    node_devices: int
    nodes: int
    waiting: float
    overlap: float = 0.0

    def __str__(self) -> str:
        hidden = f", {self.overlap:.0%} overlapped" if self.overlap else ""
        return f"{self.nodes} x {self.node_devices} over {self.link.name}{hidden}"

    def exchange_s(
        self,
        direction: Direction,
        ranks: int,
        tokens: Floats,
        values: float,
        compute: str,
    ) -> Floats:
        """Seconds of one dispatch of tokens to their experts, or of one combination of the results.

        - tokens: number of tokens of a rank.
        - values: number of values that are sent per token.
        - compute: the format in which the experts compute. Dispatched values have this format.
        """
        table = self.link.exchange
        assert table is not None  # `placement.fabric_of` checked this
        knots = table.dispatch.us
        payload = table.payloads.get(compute, 1.0)
        if direction == "combine":
            knots = table.combine.us
            payload = 1.0
        measured_values = table.hidden * table.experts_per_token
        return US * self.waiting * by_ranks(knots, ranks, tokens * (values * payload / measured_values))

    def allreduce_s(self, devices: int, message_bytes: Floats) -> Floats:
        """Seconds of one all-reduce over devices of several nodes."""
        return US * along(self._table("allreduce").us, message_bytes)

    def send_s(self, message_bytes: Floats) -> Floats:
        """Seconds of one message to the devices of the next pipeline stage."""
        return US * along(self._table("send").us, message_bytes)

    def log_error(self, exchanges: bool) -> float:
        """Standard deviation of the logarithm of the times of messages.

        - exchanges: whether most of the messages dispatch and combine tokens.
        """
        table = self.link.exchange if exchanges else self.link.allreduce
        return table.log_rms if table else 0.0

    def _table(self, name: str) -> Messages:
        table = getattr(self.link, name)
        if table is None:
            flag = "--pp" if name == "send" else "--tp"
            raise InputError(f"{flag}: hardware/links/{self.link.name}.yaml has no table {name}")
        assert isinstance(table, Messages)
        return table


def along(knots: Knots, at: Floats) -> Floats:
    """Interpolates linearly between knots. Beyond the last knot, the curve continues with the slope of its
    last segment.
    """
    xs, ys = np.array(knots, float).T
    inside = np.interp(at, xs, ys)
    if len(xs) == 1:
        return inside
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return inside + slope * np.maximum(at - xs[-1], 0.0)


def by_ranks(tables: Mapping[int, Knots], ranks: int, at: Floats) -> Floats:
    """The value for a number of ranks, interpolated linearly in the logarithm of this number. Outside the
    known numbers of ranks, the nearest table is used.
    """
    known = sorted(tables)
    low = max((n for n in known if n <= ranks), default=known[0])
    high = min((n for n in known if n >= ranks), default=known[-1])
    first = along(tables[low], at)
    if low == high:
        return first
    share = math.log(ranks / low) / math.log(high / low)
    return first + share * (along(tables[high], at) - first)
