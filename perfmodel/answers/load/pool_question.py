"""Reads the arguments for separate prefill and decode pools: the instances of each pool, and the link between
the pools.
"""

import re
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import refuse
from perfmodel.parse import parse_text
from perfmodel.specs import GPUSpec
from perfmodel.specs.devices.links import link_of

FORM = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})(?::((?:dp|ep)\d{1,4}(?:,(?:dp|ep)\d{1,4})?))?")
"""Matches the instances of a pool, such as ``2x4`` or ``1x32:dp32,ep32``."""
MOST = 1e6
"""The largest rate of a link in GB/s, and the largest time of a transfer in milliseconds."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances (servers) of a pool.

    - count: number of instances.
    - gpus: devices of each instance.
    - dp, ep: the data-parallel and expert-parallel degrees of each instance, as in `whatif`.
    """

    count: int
    gpus: int
    dp: int = 1
    ep: int = 1

    @property
    def devices(self) -> int:
        """The number of devices of the pool."""
        return self.count * self.gpus

    @property
    def layout(self) -> dict[str, int]:
        """The parallel degrees of one instance, as arguments of a question."""
        return {"tp": self.gpus, "dp": self.dp, "ep": self.ep}

    @classmethod
    def of(cls, text: str, flag: str) -> "Instances":
        """Reads a text such as ``2x4`` (two instances of four devices each) or ``1x32:dp32,ep32``. Raises
        InputError for other text.
        """
        form = FORM.fullmatch(text)
        if form is None:
            raise refuse(flag, None, "INSTANCESxGPUS[:dpN,epN], such as 2x4 or 1x32:dp32,ep32", text)
        groups = dict(re.findall(r"(dp|ep)(\d+)", form[3] or ""))
        return cls(int(form[1]), int(form[2]), int(groups.get("dp", 1)), int(groups.get("ep", 1)))

    def __str__(self) -> str:
        """The text from which `of` reads these instances."""
        groups = [f"{name}{size}" for name, size in (("dp", self.dp), ("ep", self.ep)) if size > 1]
        return f"{self.count}x{self.gpus}" + (":" + ",".join(groups) if groups else "")


def parse_instances(given: object, flag: str) -> str:
    """Checks a text that states the instances of a pool. Raises InputError for wrong text."""
    text = parse_text(given, flag).lower()
    Instances.of(text, flag)
    return text


@dataclass(frozen=True, slots=True)
class Transfer:
    """The link over which each device sends KV caches to the other pool.

    - rate: bytes per second.
    - share: the share of this rate that a transfer reaches.
    - floor_s: time of the shortest transfer, in seconds.
    - source: where the rate, the share and the shortest time come from.
    """

    rate: float
    share: float
    floor_s: float
    source: str

    def seconds(self, sent_bytes: float) -> float:
        """The time in which one device sends this many bytes, in seconds."""
        return self.floor_s + sent_bytes / (self.rate * self.share)


def parse_kv_link(given: object, flag: str) -> str:
    """Checks a text of the form ``RATE[,SHARE[,FLOOR]]``. RATE is in GB/s per device. SHARE is the share of
    RATE that a transfer reaches. FLOOR is the time of the shortest transfer in milliseconds. Raises
    InputError for wrong text.
    """
    text = parse_text(given, flag)
    _numbers(text, flag)
    return text


def _numbers(text: str, flag: str) -> tuple[float, float, float]:
    """RATE, SHARE and FLOOR of `parse_kv_link`. SHARE is 1 and FLOOR is 0 if the text ends before them.
    Raises InputError for other text.
    """
    words = text.split(",")
    words += ["1", "0"][len(words) - 1 :]
    try:
        rate, share, floor_ms = (float(word) for word in words)
        good = 0 < rate <= MOST and 0 < share <= 1 and 0 <= floor_ms <= MOST
    except ValueError:  # a word is not a number, or there are more than three
        good = False
    if not good:
        raise refuse(flag, None, "GB/S[,SHARE[,FLOOR_MS]], such as 50,0.36,0.4", text)
    return rate, share, floor_ms


def transfer_of(question: Any, gpu: GPUSpec) -> Transfer:
    """The link between the pools: the link that the question states, or else the link that is known for nodes
    with this device. Raises InputError if there is neither.
    """
    if question.kv_link is None:
        known = link_of(gpu, "--kv-link").transfer
        return Transfer(known.rate.si, known.share, known.floor_ms / 1e3, known.source)
    rate, share, floor_ms = _numbers(question.kv_link, "--kv-link")
    return Transfer(rate * 1e9, share, floor_ms / 1e3, "as given")
