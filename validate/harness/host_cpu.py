"""Facts about the host's CPU, from the files of the operating system: its name and features, and how busy it
is.
"""

import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ISA = ("amx_bf16", "amx_tile", "avx512_bf16", "avx512f", "avx2")
"""Instruction sets on which the speed of matrix products depends, as Linux names them."""


def busy_share(
    seconds: float = 0.5,
    stat: Path = Path("/proc/stat"),
    sleep: Callable[[float], object] = time.sleep,
) -> float:
    """Share of all CPU time that is used during the next `seconds`, 0 to 1; 0 if the system does not report
    it. The call takes this long.
    """
    before = _jiffies(stat)
    sleep(seconds)
    after = _jiffies(stat)
    if after.total > before.total:
        return 1.0 - (after.idle - before.idle) / (after.total - before.total)
    return 0.0


class _Jiffies(NamedTuple):
    """CPU time so far of all processors: idle (including waits for disks), and in total."""

    idle: int
    total: int


def _jiffies(stat: Path) -> _Jiffies:
    """The CPU times in the first line of ``/proc/stat``; 0 if the file does not exist."""
    text = stat.read_text(encoding="ascii") if stat.is_file() else ""
    jiffies = [int(value) for value in text.partition("\n")[0].split()[1:9]]
    return _Jiffies(sum(jiffies[3:5]), sum(jiffies))


def describe_cpu(root: Path = Path("/")) -> dict[str, Any]:
    """Name, instruction sets and largest cache of the host's CPU, from the system files below `root`."""
    cpuinfo = _read(root / "proc/cpuinfo")
    flags = set(_first_value("flags", cpuinfo).split())
    bf16 = "emulated"
    if {"amx_bf16", "amx_tile"} <= flags:
        bf16 = "amx"
    elif "avx512_bf16" in flags:
        bf16 = "avx512"
    name = _first_value("model name", cpuinfo)
    return {
        "kind": "cpu",
        "name": name or platform.processor() or platform.machine(),
        "isa": [extension for extension in ISA if extension in flags],
        "bf16": bf16,
        "last_level_cache_bytes": last_level_cache(root),
    }


def _first_value(key: str, cpuinfo: str) -> str:
    """The value of a key for the first processor; empty if the system does not state it."""
    line = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.M)
    return line[1] if line else ""


def last_level_cache(root: Path = Path("/")) -> int | None:
    """Bytes of the largest cache of processor 0; None if the system does not report it. A virtual machine can
    share this cache with others.
    """
    units = {"K": 2**10, "M": 2**20}
    sizes = []
    for path in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        size = re.fullmatch(r"(\d+)([KM])\n?", path.read_text())
        if size:
            sizes.append(int(size[1]) * units[size[2]])
    return max(sizes, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
