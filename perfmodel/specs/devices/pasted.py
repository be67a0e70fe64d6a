"""Recognises device names as owners and tools write them: ``Radeon RX 7900 XTX 24GB``, ``H100 80GB SXM5``, or
a line of ``lspci``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from perfmodel.errors import InputError, refuse

SAME_MEMORY = 0.1
"""Share by which a stated memory size may differ from that of the device. The B200, for example, has 180
usable GB and is sold with 192 GB (7 %).
"""
MEMORY = re.compile(r"(\d+) ?gi?b?\b")
"""A memory size, such as 24GB, 24 GiB or 24g."""
SEVERAL = re.compile(r"(?:(\d{1,3}) ?[x×*] ?)?(\S.*?)(?: +[x×*] ?(\d{1,3}))?", re.IGNORECASE)
"""A device with a number of devices before or after its name, such as 2x RTX 3090 or RTX 3090 x2."""
COMMON = re.compile(
    "nvidia|amd|ati|intel|apple"  # vendors
    "|advanced|micro|devices|inc|corporation|r|tm"  # the rest of their names, as `lspci` writes them
    "|geforce|radeon|tesla|instinct"  # series
    "|graphics|gpu|card|series|oc|desktop"  # kinds of boards
    r"|hbm\de?|gddr\dx?"  # kinds of memory
)
"""Words that do not distinguish devices."""


def pasted_name(
    name: str,
    flag: str,
    find: Callable[[str, str], str],
    spellings: Sequence[tuple[str, str]],
    load: Callable[[str], Any],
) -> str | None:
    """The bundled device that a name means. The result is None if it does not mean exactly one device. At
    least one spelling of the device must have all its words in the name, in any order. All other words of the
    name must occur in other spellings of the device.

    One of the words may state the memory size. A machine with LPDDR is sold with several sizes. For such a
    machine, ``DEVICE:96gb`` is returned.

    - find: a function that returns the bundled name of a device from a name and its flag. It is called if the
      name states several devices.
    - spellings: names with their devices.
    - load: a function that returns the `GPUSpec` of a name.

    Raises InputError for a name of several devices. The message has the flag to use instead. It also raises
    for a board with a memory size in which it is not sold.
    """
    plain_name = _without_count(name, flag, find)
    meant = _devices_of(_words(plain_name), spellings)
    size = MEMORY.search(name.lower())
    if size is None:
        return meant[0] if len(meant) == 1 else None
    size_gb = int(size[1])
    fits = [device for device in meant if abs(size_gb / load(device).memory.value - 1) < SAME_MEMORY]
    kinds = {re.sub(r"-\d+gb$", "", device) for device in meant}
    if not fits and len(kinds) == 1:
        return _with_memory(max(map(load, meant), key=lambda gpu: gpu.memory.value), size_gb, name, flag)
    return fits[0] if len(fits) == 1 else None


def _without_count(name: str, flag: str, find: Callable[[str, str], str]) -> str:
    """A name without the number of devices. Raises InputError for more than one."""
    counted = SEVERAL.fullmatch(name.strip())
    if counted is None:
        return name
    device = counted[2]
    count = int(counted[1] or counted[3] or 1)
    if count > 1:
        allowed = f"one device: {find(device, flag)} with --tp {count} (llama.cpp: or --layer-split {count})"
        raise refuse(flag, None, allowed, name)
    return device


def _devices_of(words: frozenset[str], spellings: Sequence[tuple[str, str]]) -> list[str]:
    """The devices that these words mean. The words contain all words of one spelling of the device. All other
    words occur in other spellings of the device.
    """
    words_by_device: dict[str, list[frozenset[str]]] = {}
    for spelling, device in spellings:
        words_by_device.setdefault(device, []).append(_words(spelling))
    return [
        device
        for device, known in words_by_device.items()
        if words <= frozenset().union(*known) and any(each and each <= words for each in known)
    ]


def _with_memory(gpu: Any, size_gb: int, name: str, flag: str) -> str:
    """The name of a machine with another memory size. Raises InputError for a board."""
    sized = f"{gpu.name}:{size_gb}gb"
    if gpu.memory_type.startswith("LPDDR"):
        return sized
    other = f"{gpu.memory.value:g} GB, and {sized} is the device with {size_gb} GB"
    raise InputError(f"{flag}: {gpu.name} has {other}; given {name!r}")


def _words(name: str) -> frozenset[str]:
    """The words of a name that distinguish devices, without the memory size. In a line of ``lspci``, only the
    words in brackets count.
    """
    text = re.sub(r"\[[0-9a-f]{4}(:[0-9a-f]{4})?\]", "", name.lower())  # the ids that `lspci -nn` adds
    text = re.sub(r"macbook[ -](pro|air)|mac[ -](studio|mini|pro)", "", text)
    text = re.sub(r".*\[(.*)\].*", r"\1", text)
    text = MEMORY.sub("", text)
    text = re.sub(r"sxm\d", "sxm", text)  # SXM4, SXM5 and SXM6 belong to one generation of devices each
    return frozenset(word for word in re.findall(r"[a-z0-9]+", text) if not COMMON.fullmatch(word))
