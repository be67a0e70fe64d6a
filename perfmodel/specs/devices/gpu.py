"""The figures of a device: its peaks, memory and links. The figures come from the device's vendor, or from
measurements of a CPU host.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, field

from perfmodel.errors import InputError, refuse
from perfmodel.operations import Floats
from perfmodel.specs.boundary import files, units
from perfmodel.specs.boundary.frozen import Frozen, Share, Text
from perfmodel.specs.boundary.units import Bounds, Quantity
from perfmodel.specs.devices.power import LimitedPasses, PowerDraw

Precision = Literal["fp32", "bf16", "fp8", "int8", "fp4"]


BANDWIDTH = Bounds(units.BYTES_PER_S, 1e8, 1e15, "from 0.1 GB/s to 1000 TB/s")
FLOPS = Bounds(units.FLOPS, 1e9, 1e18, "from 1 GFLOP/s to 1000000 TFLOP/s")
RANGES = {
    "memory": Bounds(units.BYTES, 1e8, 1e14, "from 0.1 GB to 100 TB"),
    "reported_memory": Bounds(units.BYTES, 1e8, 1e14, "from 0.1 GB to 100 TB"),
    "memory_bandwidth": BANDWIDTH,
    "last_level_cache": Bounds(units.BYTES, 1e4, 1e11, "from 10 kB to 100 GB"),
    "multiprocessors": Bounds(("count",), 1, 1e6, "a whole number from 1 to 1000000", whole=True),
    "boost_clock": Bounds(("MHz", "GHz"), 1e7, 1e11, "from 10 MHz to 100 GHz"),
    "power": Bounds(("W",), 0.1, 1e6, "from 0.1 to 1000000 W"),
}
"""The range of each field of a device."""


class Link(Frozen):
    """A link between devices, with its bandwidth in one direction.

    - devices: number of devices that the link joins (2 for a bridge). It is None if it joins all devices of a
      server.
    - presence: ``usual`` if servers with this device have the link, ``rare`` if it is sold separately and
      most servers have none, and ``stated`` if the question states it (``NAME:nvlink``).
    """

    name: str
    per_direction: Quantity
    devices: Annotated[int, Meta(ge=2)] | None = None
    presence: Literal["usual", "rare", "stated"] = "usual"

    def __post_init__(self) -> None:
        BANDWIDTH.check("per_direction", self.per_direction)


class WorkingSetShare(Frozen):
    """The share of a shared memory that the GPU may use if the memory has at least `from_gib` GiB."""

    from_gib: Annotated[float, Meta(ge=0, le=1e6)]
    share: Share


class WorkingSet(Frozen):
    """The share of a shared memory that the operating system lets the GPU use by default, by the size of the
    memory. The sizes (`from_gib`) rise, and the first size is 0.
    """

    shares: Annotated[tuple[WorkingSetShare, ...], Meta(min_length=1)]
    source: Text

    def __post_init__(self) -> None:
        starts = [each.from_gib for each in self.shares]
        if starts[0] or starts != sorted(set(starts)):
            raise ValueError("shares must rise in from_gib, from 0 on")

    def share(self, size_bytes: float) -> float:
        """The share of a memory of this size that the GPU may use."""
        return [each.share for each in self.shares if each.from_gib * units.FACTORS["GiB"] <= size_bytes][-1]


LEFT_TO_SYSTEM_GIB = 4.0
"""Memory that a raised limit leaves to the operating system, in GiB (assumed)."""

STATED_BY_QUESTION = "as given:"
"""The source of a memory size begins with these words if the question states the size."""


class GPUSpec(Frozen):
    """The vendor's figures for one device, read from ``hardware/gpus/<name>.yaml`` or from a user's file.

    Peaks are for dense matrices and count a multiply-add as two FLOPs. A precision that is not listed has no
    peak. Only the file of a CPU host may leave out memory and peaks, because they depend on the machine. A
    question that needs a missing number is refused.

    - peer_access: whether devices without a link access each other's memory over PCIe. If not, messages go
      through host memory.
    - reported_memory: the total memory that CUDA or HIP reports. Engines use a share of this total.
    - memory_type: type of the memory. On a device with GDDR, kernel constants from another device are
      corrected. Devices with LPDDR are sold with several memory sizes.
    - box_devices: largest number of devices in one machine.
    - working_set: the share of the memory that the GPU may use. It is None if it may use all of it.
    - in_turn: names of the devices, if this record represents several devices that run one after another.
    - makers_in_turn: the makers of these devices.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*\Z")]
    title: str
    vendor: str
    architecture: str
    kind: Literal["gpu", "tpu", "cpu"] = "gpu"
    aliases: tuple[str, ...] = ()
    calibration: str
    memory: Quantity | None = None
    reported_memory: Quantity | None = None
    memory_type: Literal["", "HBM", "GDDR6", "GDDR6X", "GDDR7", "LPDDR5", "LPDDR5X", "DDR5"] = ""
    memory_bandwidth: Quantity
    peak: dict[Precision, Quantity] = field(default_factory=dict)
    last_level_cache: Quantity | None = None
    multiprocessors: Quantity | None = None
    boost_clock: Quantity | None = None
    power: Quantity | None = None
    power_draw: PowerDraw | None = None
    link: Link | None = None
    host_link: Link | None = None
    peer_access: bool = True
    box_devices: Annotated[int, Meta(ge=1, le=16)] = 8
    working_set: WorkingSet | None = None
    in_turn: tuple[str, ...] = ()
    makers_in_turn: tuple[str, ...] = ()
    notes: str = ""

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            allowed.check(name, getattr(self, name))
        for precision, peak in self.peak.items():
            FLOPS.check(f"peak.{precision}", peak)
        if self.kind != "cpu" and not (self.memory and self.peak):
            raise ValueError(f"memory and at least one peak must be given for kind {self.kind}")

    def peak_flops(self, precision: str, flag: str = "--weights") -> float:
        """The dense peak in FLOP/s for a precision. Raises InputError if the device has no such peak."""
        for name, peak in self.peak.items():
            if name == precision:
                return peak.si
        known = (
            f"it has {', '.join(self.peak)}" if self.peak else "measure it and put it in a file of your own"
        )
        raise InputError(f"{flag}: {self.name} has no published {precision} peak; {known}")

    def check_peaks(self, computes: Iterable[str], hardware: str, flag: str = "--weights") -> None:
        """Raises InputError if one of the compute formats has no peak on this device.

        - hardware: the name of the device in the question, for the error message.
        """
        for compute in computes:
            self.peak_flops(compute, f"{flag}: {hardware}" if files.looks_like_path(hardware) else flag)

    def limited(self, limit_w: Floats | None, seconds: Floats, moved: Floats, flops: Floats) -> LimitedPasses:
        """Seconds and joules of an iteration under a power limit (`PowerDraw.limited`). A limit of None means
        the device's own limit. The device must have a `power_draw`.

        - seconds: time of the iteration without a power limit.
        - moved, flops: bytes and FLOPs of the iteration.
        """
        power = self.power_draw
        assert power is not None
        load_s = moved / (self.memory_bandwidth_bytes_per_s * power.memory_share)
        return power.limited(limit_w, seconds, np.minimum(load_s, seconds), moved, flops)

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        """Peak memory bandwidth in bytes/s."""
        return self.memory_bandwidth.si

    @property
    def stated_memory(self) -> Quantity:
        """The memory capacity as the data sheet states it. The unit is GB (10^9 bytes), or GiB if the memory
        chips have that size. Raises InputError if it is missing.
        """
        if not self.memory:
            raise InputError(f"--hardware: {self.name} has no memory size; put it in a file of your own")
        return self.memory

    @property
    def label(self) -> str:
        """The name of the device. If the question states the memory size, the size is added."""
        from_question = self.memory is not None and self.memory.source.startswith(STATED_BY_QUESTION)
        if from_question:
            return f"{self.name}:{self.stated_memory.value:g}gb"
        return self.name

    @property
    def memory_bytes(self) -> float:
        """The memory that the GPU may use, in bytes. This is the total that the GPU reports. If this total is
        unknown, the result is the share of `stated_memory` that the operating system allows.
        """
        if self.reported_memory is not None:
            return self.reported_memory.si
        size = self.stated_memory.si
        return size if self.working_set is None else size * self.working_set.share(size)

    def raised_limit_mib(self, missing_bytes: float) -> int | None:
        """The limit in MiB with which the GPU may use this many more bytes than by default. The result is
        None if the operating system has no such limit, or if it would keep less than `LEFT_TO_SYSTEM_GIB`.
        """
        if self.working_set is None or self.reported_memory is not None:
            return None
        limit = self.memory_bytes + missing_bytes
        if limit > self.stated_memory.si - LEFT_TO_SYSTEM_GIB * units.FACTORS["GiB"]:
            return None
        return math.ceil(limit / units.FACTORS["MiB"])

    def link_rate(self, devices: int) -> float | None:
        """The bandwidth in one direction between this number of devices, in bytes per second. The device link
        counts if there is one, and otherwise the host link. The result is None if there is no link. A bridge
        reaches only the devices that it joins.
        """
        link = self.host_link if self.over_host(devices) else self.link
        return link.per_direction.si if link else None

    def over_host(self, devices: int) -> bool:
        """Whether this number of devices communicates over PCIe, because there is no device link, because
        most servers have none, or because it joins fewer devices.
        """
        link = self.link
        if link is None or link.presence == "rare":
            return True
        return link.devices is not None and devices > link.devices


def modelled_power_limit(gpu: GPUSpec, limit_w: float | None) -> float | None:
    """The power limit in watts, if the power of the device was measured. The result is None otherwise. Raises
    InputError for a limit outside the measured range.
    """
    known = gpu.power_draw
    if limit_w is None or known is None:
        return None
    if not known.lowest_limit_w <= limit_w <= known.limit_w:
        raise refuse(
            "--power-limit",
            None,
            f"from {known.lowest_limit_w:g} to {known.limit_w:g} W, as measured for {gpu.name}",
            f"{limit_w:g}",
        )
    return limit_w
