"""The words of a question about a tier of caches."""

from typing import NamedTuple

from perfmodel.errors import refuse


class RemoteTier(NamedTuple):
    """How fast a remote tier is read. shortest_s: seconds of the smallest read."""

    gb_per_s: float
    shortest_s: float


def parse_tier(given: object, flag: str) -> str:
    """Reads ``host``, ``c2c``, ``nvme`` or ``remote:RATE,FLOOR``. Raises InputError."""
    text = str(given).strip().lower()
    remote_tier(text, flag)
    return text


def remote_tier(text: str, flag: str) -> RemoteTier | None:
    """The remote tier that is stated; None for a named tier."""
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
