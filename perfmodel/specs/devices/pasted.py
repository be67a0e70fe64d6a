"""Device names as owners and tools write them: ``Radeon RX 7900 XTX 24GB``, ``H100 80GB SXM5``, a line of
``lspci``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from perfmodel.errors import InputError, refuse

SAME_MEMORY = 0.1
"""Share by which a stated memory and that of the device may differ: 192 GB are sold where 180 can be used."""
MEMORY = re.compile(r"(\d+) ?gi?b?\b")
SEVERAL = re.compile(r"(?:(\d{1,3}) ?[x×] ?)?(\S.*?)(?: +[x×] ?(\d{1,3}))?", re.IGNORECASE)
COMMON = re.compile(
    r"(nvidia|amd|ati|intel|r|tm|apple|geforce|radeon|tesla|instinct|corporation|advanced|micro|devices|inc"
    r"|graphics|gpu|card|series|oc|desktop|hbm\de?|gddr\dx?)"
)
"""Words that do not tell devices apart."""


def pasted_name(
    name: str,
    flag: str,
    find: Callable[[str, str], str],
    spellings: Sequence[tuple[str, str]],
    load: Callable[[str], Any],
) -> str | None:
    """The bundled device one of whose spellings has all its words in a name, in any order, if all other words
    are in its other spellings; None if no single one is meant.

    The memory may be one of the words: of a box with LPDDR, which is sold with several sizes, ``DEVICE:96gb``
    is returned. find: a name and its flag -> the bundled name, to be called for one of several devices.
    spellings: names with their devices. load: a `GPUSpec` by its name. Raises InputError for several devices,
    with the flag that asks for them, and for another memory.
    """
    counted = SEVERAL.fullmatch(name.strip())
    if counted and (count := int(counted[1] or counted[3] or 1)) > 1:
        raise refuse(
            flag,
            None,
            f"one device: {find(counted[2], flag)} with --tp {count} (llama.cpp: or --layer-split {count})",
            name,
        )
    words = _words(counted[2] if counted else name)
    size = MEMORY.search(name.lower())
    known = [(device, _words(each)) for each, device in spellings]
    same = {
        device
        for device, each in known
        if each and each <= words <= frozenset().union(*(other for d, other in known if d == device))
    }
    fits = [d for d in same if not size or abs(int(size[1]) / load(d).memory.value - 1) < SAME_MEMORY]
    kinds = {re.sub(r"-\d+gb$", "", device) for device in same}
    if size and not fits and len(kinds) == 1:
        gpu = max(map(load, same), key=lambda device: device.memory.value)
        sized = f"{gpu.name}:{size[1]}gb"
        if gpu.memory_type.startswith("LPDDR"):
            return sized
        meant = f"{gpu.memory.value:g} GB, and {sized} is the device with {size[1]} GB"
        raise InputError(f"{flag}: {gpu.name} has {meant}; given {name!r}")
    return fits[0] if len(fits) == 1 else None


def _words(name: str) -> frozenset[str]:
    """The words that tell devices apart, without the memory; of ``lspci`` those in brackets."""
    plain = re.sub(r"\[[0-9a-f]{4}(:[0-9a-f]{4})?\]", "", name.lower())  # numbers of `lspci -nn`
    plain = re.sub(r"macbook (pro|air)|mac (studio|mini|pro)", "", plain)
    text = re.sub(r"sxm\d", "sxm", MEMORY.sub("", re.sub(r".*\[(.*)\].*", r"\1", plain)))
    return frozenset(word for word in re.findall(r"[a-z0-9]+", text) if not COMMON.fullmatch(word))
