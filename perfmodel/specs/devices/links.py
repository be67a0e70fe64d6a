"""The links between nodes, from ``hardware/links/<name>.yaml``. A link has times of collective operations,
measured for each library.
"""

from functools import cache
from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.errors import InputError
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.calibrations.fit_errors import LogError
from perfmodel.specs.devices.gpu import GPUSpec

Evidence = Literal["measured", "assumed"]
Direction = Literal["dispatch", "combine"]
DIRECTIONS: tuple[Direction, ...] = ("dispatch", "combine")
"""The two messages of an exchange, in order."""
Microseconds = Annotated[float, Meta(gt=0, le=1e7)]
Knots = Annotated[tuple[tuple[float, Microseconds], ...], Meta(min_length=1)]
"""Pairs of tokens per rank, or of bytes of a message, and microseconds."""


class ByRanks(Frozen):
    """The times of one direction of an exchange, in microseconds.

    - us: pairs of tokens per rank and microseconds, by number of ranks.
    """

    us: dict[int, Knots]


class Exchange(Frozen):
    """The dispatch of tokens to the ranks of their experts, and the combination of the results.

    - hidden, experts_per_token: hidden size and experts per token of the measured model.
    - payloads: size of a dispatched token divided by its size in the measurement, by compute format.
    - within_box: engines that also dispatch tokens within one node, if attention is data-parallel.
    - words: names of the library in the flags of engines, by engine.
    - assumed_below: number of tokens per rank below which the times are only a bound.
    - log_rms: standard deviation of ln(time).
    """

    library: Text
    hidden: Positive
    experts_per_token: Positive
    payloads: dict[str, float]
    dispatch: ByRanks
    combine: ByRanks
    source: Text
    log_rms: LogError
    within_box: tuple[str, ...] = ()
    words: dict[str, str] = {}
    assumed_below: Annotated[float, Meta(ge=0)] = 0.0


class Messages(Frozen):
    """The times of an all-reduce, or of a message from one device to another, by message size.

    - measured_devices: number of devices of the largest measured group.
    """

    us: Knots
    source: Text
    evidence: Evidence
    log_rms: LogError
    measured_devices: Positive = 2


class PoolTransfer(Frozen):
    """The transfer of KV caches from a prefill instance to a decode instance.

    - rate: rate of the network card of one device.
    - share: share of this rate that a transfer reaches.
    - floor_ms: time of the shortest transfer, in milliseconds.
    """

    rate: Quantity
    share: Share
    floor_ms: Annotated[float, Meta(ge=0, le=1e6)]
    source: Text


class LinkSpec(Frozen):
    """One kind of link between nodes.

    - devices: names of the devices whose nodes the link joins.
    - vendors: vendors of the devices that the link joins, if no devices are named. Only GPUs with a direct
      link have such nodes.

    Questions that need a missing table are refused. Every link states how fast it transfers caches between
    pools.
    """

    name: str
    title: Text
    devices: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    node_devices: Quantity
    transfer: PoolTransfer
    exchange: Exchange | None = None
    allreduce: Messages | None = None
    send: Messages | None = None
    notes: str = ""

    def joins(self, gpu: GPUSpec) -> bool:
        """Whether the link joins nodes that have this device."""
        linked = gpu.kind == "gpu" and gpu.link is not None
        return gpu.name in self.devices or (linked and gpu.vendor in self.vendors)

    @property
    def joins_a_rack(self) -> bool:
        """Whether the link joins the devices of one rack instead of nodes."""
        return bool(self.devices) and self.node_devices.value > 1


def dispatches_in_box(gpu: GPUSpec, engine: str) -> bool:
    """Whether an engine dispatches tokens to the ranks of their experts within one node of these devices."""
    tables = [link.exchange for link in all_links() if gpu.name in link.devices]
    return any(table is not None and engine in table.within_box for table in tables)


@cache
def all_links() -> tuple[LinkSpec, ...]:
    """The links of all bundled files. Links that name their devices come first."""
    read = [files.load_bundled(LinkSpec, "links", name) for name in files.bundled_names("links")]
    return tuple(sorted(read, key=lambda link: not link.devices))


def devices_of_node(gpu: GPUSpec) -> int | None:
    """Number of devices per node. The result is None if there is no table of links between nodes with this
    device.
    """
    link = _link_of(gpu)
    return None if link is None else int(link.node_devices.value)


def _link_of(gpu: GPUSpec) -> LinkSpec | None:
    return next((link for link in all_links() if link.joins(gpu)), None)


def link_of(gpu: GPUSpec, flag: str = "--nodes") -> LinkSpec:
    """The link between nodes with this device. Raises InputError if there is no table for such a link."""
    link = _link_of(gpu)
    if link is not None:
        return link
    raise InputError(f"{flag}: hardware/links has no table of links between servers of {gpu.name}")
