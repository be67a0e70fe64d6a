"""How requests come to a server: at rates (an open loop), or from clients (a closed loop)."""

from dataclasses import dataclass
from typing import Any

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Load


@dataclass(frozen=True, slots=True)
class Loop:
    """Loads of one kind. values: requests per second of an open loop, or clients of a closed one.

    burstiness: shape of the gaps between arrivals. think_s: mean time between an output and the client's
    next request. cap: the largest number of requests at once in an open loop; None without a limit.
    """

    opens: bool
    values: Array
    lengths: Lengths
    burstiness: float = 1.0
    think_s: float = 0.0
    cap: int | None = None

    def load(self, values: Array) -> Load:
        """A load at these rates, or with these numbers of clients."""
        rate = values if self.opens else None
        clients = None if self.opens else values
        return Load(self.lengths, rate, clients, self.burstiness, self.think_s)

    def named(self, value: float) -> dict[str, Any]:
        """One load as fields of a row: a rate, a number of clients, or a rate and its limit; the other
        fields are None.
        """
        if self.opens:
            return {"request_rate": value, "concurrency": self.cap}
        return {"request_rate": None, "concurrency": int(value)}
