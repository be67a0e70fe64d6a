"""Device names as owners and tools write them: ``Radeon RX 7900 XTX 24GB``, ``H100 80GB SXM5``, a line of
``lspci``.
"""

import re
from collections.abc import Callable, Iterable

from perfmodel.errors import InputError, refuse

SAME_MEMORY = 0.1
"""Share by which a stated memory and that of the device may differ: 192 GB are sold where 180 can be used."""
MEMORY = re.compile(r"(\d+) ?gi?b?\b")
SEVERAL = re.compile(r"(?:(\d{1,3}) ?[x×] ?)?(\S.*?)(?: +[x×] ?(\d{1,3}))?", re.IGNORECASE)
COMMON = re.compile(
    r"(nvidia|amd|ati|intel|r|tm|apple|geforce|radeon|tesla|instinct|corporation|advanced|micro|devices|inc"
    r"|graphics|gpu|card|series|mac|studio|hbm\de?|gddr\dx?)"
)
"""Words that do not tell devices apart."""


def pasted_name(
    name: str,
    flag: str,
    find: Callable[[str, str], str],
    aliases: Iterable[tuple[str, Iterable[str]]],
    memory_gb: Callable[[str], float],
) -> str | None:
    """The bundled device with the same words in any order, of which the memory may be one; None if no single
    one is meant.

    find: a name and its flag -> the bundled name, to be called for one of several devices. aliases: spellings
    with their devices. memory_gb: of a device. Raises InputError for several devices, with the flag that asks
    for them, and for another memory.
    """
    counted = SEVERAL.fullmatch(name.strip())
    if counted and (count := int(counted[1] or counted[3] or 1)) > 1:
        one = f"one device: {find(counted[2], flag)} with --tp {count}"
        raise refuse(flag, None, f"{one} (llama.cpp: or --layer-split {count})", name)
    words, size = _words(counted[2] if counted else name), MEMORY.search(name.lower())
    same = {device for alias, devices in aliases if _words(alias) == words for device in devices}
    fits = [d for d in same if not size or abs(int(size[1]) / memory_gb(d) - 1) < SAME_MEMORY]
    if size and not fits and len(same) == 1:
        (device,) = same
        sized = f"{device}:{size[1]}gb is the device with {size[1]} GB"
        raise InputError(f"{flag}: {device} has {memory_gb(device):g} GB, and {sized}; given {name!r}")
    return fits[0] if len(fits) == 1 else None


def _words(name: str) -> frozenset[str]:
    """The words that tell devices apart, without the memory; of ``lspci`` those in brackets."""
    plain = re.sub(r"\[[0-9a-f]{4}(:[0-9a-f]{4})?\]", "", name.lower())  # numbers of `lspci -nn`
    text = MEMORY.sub("", re.sub(r".*\[(.*)\].*", r"\1", plain))
    words = re.findall(r"[a-z0-9]+", re.sub(r"sxm\d", "sxm", text))
    return frozenset(word for word in words if not COMMON.fullmatch(word))
