"""The figures of a device (from its vendor, or measured on a CPU host): peaks, memory, links."""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, field

from perfmodel.errors import InputError, refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats
from perfmodel.parse import parse_text
from perfmodel.specs.boundary import files, units
from perfmodel.specs.boundary.frozen import Frozen, Share, Text
from perfmodel.specs.boundary.unlisted import refuse_unlisted, unlisted_names

Precision = Literal["fp32", "bf16", "fp8", "int8", "fp4"]


class Quantity(Frozen):
    """One number with its unit and its source. `evidence` marks figures that no vendor page prints."""

    value: Annotated[float, Meta(ge=1e-6, le=1e18)]
    unit: units.Unit
    source: Text
    evidence: Literal["published", "derived", "recalled", "measured"] = "published"

    @property
    def si(self) -> float:
        """The value in SI units (bytes, bytes/s, FLOP/s, Hz, W)."""
        return self.value * units.FACTORS[self.unit]


class Bounds(Immutable):
    """The allowed units of a quantity, and its range in SI units over all plausible devices."""

    units: tuple[str, ...]
    low: float
    high: float
    words: str
    whole: bool = False

    def check(self, name: str, q: Quantity | None) -> None:
        """Refuse (ValueError) values outside the range."""
        if q is None:
            return
        if q.unit not in self.units:
            raise ValueError(f"{name}: unit must be {' or '.join(self.units)}, given {q.unit}")
        if not self.low <= q.si <= self.high or (self.whole and q.si != int(q.si)):
            raise ValueError(f"{name}: must be {self.words}, given {q.value:g} {q.unit}")


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
"""Field of a device -> its range."""

Watts = Annotated[float, Meta(gt=0, le=1e6)]
NEWTON_STEPS = 10
"""Steps until the clock under a power limit is exact; the smallest clocks need them all."""
PCIE = {"3": 16.0, "4": 32.0, "5": 64.0, "6": 128.0}
"""PCIe generation of a server -> nominal GB/s of 16 lanes, one way."""


class Link(Frozen):
    """A link between devices, in one direction. devices: the number that it joins, 2 for a bridge; None if it
    joins all devices of a server.
    """

    name: str
    per_direction: Quantity
    devices: Annotated[int, Meta(ge=2)] | None = None

    def __post_init__(self) -> None:
        BANDWIDTH.check("per_direction", self.per_direction)


class WorkingSetShare(Frozen):
    """The share from a memory size on."""

    from_gib: Annotated[float, Meta(ge=0, le=1e6)]
    share: Share


class WorkingSet(Frozen):
    """Share of a shared memory that the system lets the GPU use by default, by the size of the memory. The
    sizes rise, the first is 0.
    """

    shares: Annotated[tuple[WorkingSetShare, ...], Meta(min_length=1)]
    source: Text

    def __post_init__(self) -> None:
        starts = [each.from_gib for each in self.shares]
        if starts[0] or starts != sorted(set(starts)):
            raise ValueError("shares must rise in from_gib, from 0 on")

    def share(self, size_bytes: float) -> float:
        """The share of a memory of this size."""
        return [each.share for each in self.shares if each.from_gib * units.FACTORS["GiB"] <= size_bytes][-1]


class PowerDraw(Frozen):
    """The power that a device draws, fitted to runs of one model at batch 1 and several power limits.

    limit_w, lowest_limit_w: the limit of the device's other measurements, and the lowest one measured.
    static_w: power at any clock. joules_per_byte, joules_per_flop: energy at the clock of `limit_w`, which
    falls with the square of the clock. memory_share: share of the memory bandwidth at which bytes are loaded
    at any clock; the rest of an iteration slows with the clock.
    """

    limit_w: Watts
    lowest_limit_w: Watts
    static_w: Watts
    joules_per_byte: Annotated[float, Meta(gt=0, le=1e-6)]
    joules_per_flop: Annotated[float, Meta(gt=0, le=1e-6)]
    memory_share: Share
    model: str
    source: Text

    def __post_init__(self) -> None:
        if not self.static_w < self.lowest_limit_w <= self.limit_w:
            raise ValueError("static_w, lowest_limit_w and limit_w must rise")


STATED = "as given:"
"""Start of the source of a memory that the question states."""


class GPUSpec(Frozen):
    """Vendor facts of one device, read from ``hardware/gpus/<name>.yaml`` or a user's file.

    Peaks are dense and count a multiply-add as two FLOPs. A precision that is not listed has no peak. Only a
    CPU host may leave out memory and peaks, because they depend on the machine; a question that needs a
    missing one is refused. peer_access: true if devices without a link access each other's memory over PCIe;
    otherwise messages go through host memory. reported_memory: what CUDA or HIP reports as the total, which
    engines divide. memory_type: type of the memory of a board; with GDDR the kernels of another device are
    corrected, and a device with LPDDR is sold with several sizes. box_devices: most devices of one machine.
    working_set: None if the GPU can use all its memory. in_turn: the
    devices of a chain of several that run in turn.
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
    notes: str = ""

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            allowed.check(name, getattr(self, name))
        for precision, peak in self.peak.items():
            FLOPS.check(f"peak.{precision}", peak)
        if self.kind != "cpu" and not (self.memory and self.peak):
            raise ValueError(f"memory and at least one peak must be given for kind {self.kind}")

    def peak_flops(self, precision: str, flag: str = "--weights") -> float:
        """Dense peak in FLOP/s. Raises InputError where the device has none for the precision."""
        for name, q in self.peak.items():
            if name == precision:
                return q.si
        known = (
            f"it has {', '.join(self.peak)}" if self.peak else "measure it and put it in a file of your own"
        )
        raise InputError(f"{flag}: {self.name} has no published {precision} peak; {known}")

    def check_peaks(self, computes: Iterable[str], given: str, flag: str = "--weights") -> None:
        """Raise InputError for a format without a peak on this device. given: its name or file in the
        question.
        """
        for compute in computes:
            self.peak_flops(compute, f"{flag}: {given}" if files.looks_like_path(given) else flag)

    def limited(
        self, limit_w: Floats | None, seconds: Floats, moved: Floats, flops: Floats
    ) -> tuple[Floats, Floats]:
        """Seconds and joules of an iteration under a power limit; None is the device's own.

        seconds: its time without a limit. moved, flops: bytes and FLOPs of the iteration. The device must
        have a `power_draw`. With j joules beyond the static power, f seconds that do not depend on the clock
        and r seconds that do, the clock x <= 1 solves static_w + j x^2 / (f + r / x) = limit (Newton's
        method).
        """
        power = self.power_draw
        assert power is not None
        free = np.minimum(moved / (self.memory_bandwidth_bytes_per_s * power.memory_share), seconds)
        joules = power.joules_per_byte * moved + power.joules_per_flop * flops
        joules = np.minimum(joules, (power.limit_w - power.static_w) * seconds)
        watts = np.minimum((power.limit_w if limit_w is None else limit_w) - power.static_w, joules / seconds)
        clock: Floats = 1.0
        for _ in range(NEWTON_STEPS):
            excess = joules * clock**3 - watts * (free * clock + seconds - free)
            clock = clock - excess / (3.0 * joules * clock**2 - watts * free)
        slowed = free + (seconds - free) / clock
        return slowed, power.static_w * slowed + joules * clock**2

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        """Peak memory bandwidth in bytes/s."""
        return self.memory_bandwidth.si

    @property
    def stated_memory(self) -> Quantity:
        """Memory capacity: in GB (10^9 bytes) as the data sheet states it, in GiB where the chips hold that
        much. Raises InputError if it is missing.
        """
        if not self.memory:
            raise InputError(f"--hardware: {self.name} has no memory size; put it in a file of your own")
        return self.memory

    @property
    def label(self) -> str:
        """The name, followed by the memory if the question states it (`load_gpu`)."""
        from_question = self.memory is not None and self.memory.source.startswith(STATED)
        if from_question:
            return f"{self.name}:{self.stated_memory.value:g}gb"
        return self.name

    @property
    def memory_bytes(self) -> float:
        """The memory that the GPU may use, in bytes: what it reports, else the part of `stated_memory`."""
        if self.reported_memory is not None:
            return self.reported_memory.si
        size = self.stated_memory.si
        return size if self.working_set is None else size * self.working_set.share(size)

    def link_rate(self, devices: int) -> float | None:
        """One-direction bandwidth in bytes per second between this number of devices: that of the device
        link, else of the host link, else None. A bridge reaches only the devices that it joins.
        """
        link = self.host_link if self.over_host(devices) else self.link
        return link.per_direction.si if link else None

    def over_host(self, devices: int) -> bool:
        """True if this number of devices communicates over PCIe: the link is missing, or it joins fewer
        devices.
        """
        return self.link is None or (self.link.devices is not None and devices > self.link.devices)


def other_names(data: Mapping[str, Any]) -> list[str]:
    """Title and aliases of a bundled device from its file, also with the vendor's name in front."""
    listed = data.get("aliases", ())
    return [data["title"], *listed, *[f"{data['vendor']} {alias}" for alias in (data["name"], *listed)]]


NAMING = ("name", "title", "vendor", "aliases")
"""Keys of a device file whose values name it."""


@cache
def aliases() -> dict[str, str]:
    """Spelling of another name -> the bundled device that has it."""
    return files.alias_table("gpus", NAMING, other_names)


@lru_cache(maxsize=256)
def _alias(key: str) -> str | None:
    """The bundled device with an alias, from the files that may have it; None if none has."""
    return files.alias_table("gpus", NAMING, other_names, key.split("-")).get(key)


@cache
def load_bundled(name: str) -> GPUSpec:
    """A bundled device by its exact name."""
    return files.load_bundled(GPUSpec, "gpus", name)


def modelled_power_limit(gpu: GPUSpec, limit_w: float | None) -> float | None:
    """The limit, or None for a device whose power was not measured. Refuses (InputError) a limit outside the
    measured ones.
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


def load_gpu(name: str, flag: str = "--hardware") -> GPUSpec:
    """A device by bundled name, alias (the name that ``nvidia-smi`` prints is one) or path; for a folder its
    newest file.

    ``l40s:pcie5`` is the device in a server of that PCIe generation, without a bridge between devices (as
    ``rtx-3090`` has), ``m3-ultra:96gb`` one with that much memory, or the listed device of that size
    (``m4-max:36gb`` has fewer cores). ``rtx-3090+rtx-4090`` is both in turn (`in_turn`). A calibration that a
    file names by path is relative to that file. Raises InputError with the nearest names.
    """
    text = re.sub("(?i) w/ ", " ", parse_text(name, flag))
    if "+" in text and files.spelling(text.strip()) not in aliases():
        from perfmodel.specs.devices.in_turn import combined, parts_of  # only a name of several devices

        if parts := parts_of(text, load_gpu, flag):
            return combined(parts, flag)
    name, _, box = text.partition(":pcie")
    if box:
        if box not in PCIE:
            raise refuse(flag, None, f"NAME:pcie followed by one of {', '.join(PCIE)}", f"{name}:pcie{box}")
        nominal = Quantity(value=PCIE[box], unit="GB/s", source=f"PCIe {box}.0 x16 nominal rate")
        gpu = load_gpu(name, flag)
        is_bridged = gpu.link is not None and gpu.link.devices is not None
        link = None if is_bridged else gpu.link
        return gpu.replace(link=link, host_link=Link(name=f"PCIe {box}.0 x16", per_direction=nominal))
    if sized := re.fullmatch(r"(.+):([1-9]\d{0,4})gb", name, re.IGNORECASE):
        gpu = load_gpu(sized[1], flag)
        sibling = re.sub(r"-\d+gb$", f"-{sized[2]}gb", gpu.name)
        if sibling in files.bundled_names("gpus"):
            return load_bundled(sibling)
        memory = Quantity(
            value=float(sized[2]),
            unit="GiB" if gpu.memory and gpu.memory.unit in ("GiB", "MiB") else "GB",
            source=f"{STATED} {flag} {name}",
        )
        return gpu.replace(memory=memory, reported_memory=None)
    if files.looks_like_path(name):
        path = files.newest(Path(name), "*-device.yaml")
        gpu = files.parse(GPUSpec, files.read_mapping(path), str(path))
        beside = str(path.parent / gpu.calibration)
        if files.looks_like_path(gpu.calibration):
            return gpu.replace(calibration=beside)
        return gpu
    bundled = _bundled_name(name, flag)
    return load_gpu(bundled, flag) if ":" in bundled else load_bundled(bundled)


@lru_cache(maxsize=256)
def _bundled_name(name: str, flag: str) -> str:
    """The listed name of a device; one question asks for it hundreds of times."""
    key = files.spelling(name)
    if key not in files.bundled_names("gpus") and (alias := _alias(key)) is not None:
        return alias
    try:
        return files.bundled_name("gpus", "device", name, flag, aliases)
    except InputError:
        from perfmodel.specs.devices.pasted import pasted_name  # only names that are not listed

        spelled = [*aliases().items(), *((each, each) for each in files.bundled_names("gpus"))]
        if (pasted := pasted_name(name, flag, _bundled_name, spelled, load_bundled)) is None:
            refuse_unlisted(flag, name, unlisted_names().devices)
            raise
        return pasted
