"""Different devices of one server that share the layers and run one after another, like ``-sm layer`` of
llama.cpp. Such a server is written ``rtx-3090+rtx-4090``.

Each device holds layers in proportion to its memory. Only one device computes at a time. If s is the share of
the layers on each device, the rate of all devices together is therefore 1 / sum(s / rate).
"""

import re
from collections.abc import Callable, Sequence

from perfmodel.errors import InputError, refuse
from perfmodel.specs.boundary.units import Quantity, Unit
from perfmodel.specs.devices.gpu import GPUSpec

SIGN = "+"
TAKES_BOARDS = "AMD"
"""The maker of single chips whose computers can also take GPU boards."""


def combined(parts: Sequence[GPUSpec], flag: str = "--hardware") -> GPUSpec:
    """One device that represents all devices of the server. It has the memory of all devices, and the rates
    that they reach when they run one after another.

    All other figures are those of the device with the largest memory. Raises InputError for devices that are
    not in one computer, and for a device without a memory size.
    """
    names = [part.name for part in parts]
    if not _fit_in_one_computer(parts):
        raise refuse(flag, None, "devices of one computer", SIGN.join(names))
    sizes = [part.memory_bytes for part in parts]
    shares = [size / sum(sizes) for size in sizes]
    source = f"{', '.join(names)} in turn, with layers in proportion to memory"

    def derived(quantity: Quantity, value: float, unit: Unit) -> Quantity:
        return quantity.replace(value=value, unit=unit, source=source, evidence="derived")

    def mean_rate(rates: Sequence[Quantity]) -> Quantity:
        """The rate of all devices that run one after another, in the unit of the first device."""
        mean_si = 1.0 / sum(share / rate.si for share, rate in zip(shares, rates, strict=True))
        first = rates[0]
        si_per_unit = first.si / first.value
        return derived(first, mean_si / si_per_unit, first.unit)

    largest = parts[sizes.index(max(sizes))]
    common_precisions = [p for p in largest.peak if all(p in part.peak for part in parts)]
    peak = {p: mean_rate([part.peak[p] for part in parts]) for p in common_precisions}
    return largest.replace(
        name=SIGN.join(names),
        title=f" {SIGN} ".join(part.title for part in parts),
        in_turn=tuple(names),
        makers_in_turn=tuple(sorted({part.vendor for part in parts})),
        memory=derived(largest.stated_memory, sum(sizes), "B"),
        reported_memory=None,
        box_devices=max(part.box_devices for part in parts),
        working_set=None,
        memory_bandwidth=mean_rate([part.memory_bandwidth for part in parts]),
        peak=peak,
        link=None,
        power_draw=None,
    )


def _fit_in_one_computer(parts: Sequence[GPUSpec]) -> bool:
    """Whether one computer can have all of these devices. It has at most one chip that is the only one of its
    kind in a computer, and boards beside this chip only if the maker is `TAKES_BOARDS`.
    """
    chips = [part.vendor for part in parts if part.box_devices == 1]
    return not chips or chips == [TAKES_BOARDS]


def parts_of(name: str, load: Callable[[str, str], GPUSpec], flag: str) -> list[GPUSpec]:
    """The devices in a name that joins several devices with `SIGN`. The result is empty for other names, such
    as ``ryzen ai max+ 395``.

    A part that is not a device by itself belongs to the part before it, such as ``395 (Strix Halo)`` in this
    name.
    """
    words = [word.strip() for word in name.split(SIGN)]
    if len(words) < 2 or any(re.match(r"\d+ (radeon|\()", word, re.IGNORECASE) for word in words[1:]):
        return []
    try:
        return [load(word, flag) for word in words]
    except InputError:
        return []
