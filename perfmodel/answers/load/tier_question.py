"""Reads the argument that states on which tier KV caches are stored."""

from typing import NamedTuple

from perfmodel.errors import refuse

HOST_WORDS = ("cpu", "dram", "ram")
"""Other words for the memory of the host."""


class RemoteTier(NamedTuple):
    """A remote tier, with its bandwidth in GB/s and the time of the smallest read in seconds."""

    gb_per_s: float
    shortest_s: float


def parse_tier(given: object, flag: str) -> str:
    """Checks that a text is ``host``, ``c2c``, ``nvme`` or ``remote:GB/S,SECONDS``. Raises InputError for
    other text.
    """
    text = str(given).strip().lower()
    if text in HOST_WORDS:
        return "host"
    remote_tier(text, flag)
    return text


def remote_tier(text: str, flag: str) -> RemoteTier | None:
    """The remote tier that the text states; None for ``host``, ``c2c`` and ``nvme``."""
    if text in ("host", "c2c", "nvme"):
        return None
    word, _, numbers = text.partition(":")
    refusal = refuse(flag, None, "host, c2c, nvme or remote:GB/S,SECONDS", text)
    try:
        gb_per_s, shortest_s = map(float, numbers.split(","))
    except ValueError:
        raise refusal from None
    if word != "remote" or not 0 < gb_per_s <= 1e6 or not 0 <= shortest_s <= 1e6:
        raise refusal
    return RemoteTier(gb_per_s, shortest_s)
