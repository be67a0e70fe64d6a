"""The loads of a question: request rates (an open loop), or numbers of clients (a closed loop)."""

from dataclasses import dataclass
from typing import Any

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Load


@dataclass(frozen=True, slots=True)
class Loop:
    """Loads of one kind. opens: whether requests arrive at given rates (an open loop). values: requests
    per second, or numbers of clients.

    burstiness: shape parameter of the gamma-distributed gaps between arrivals; 1 is Poisson. think_s: mean
    time between an output and the client's next request. cap: the largest number of requests at once in an
    open loop; None without a limit.
    """

    opens: bool
    values: Array
    lengths: Lengths
    burstiness: float = 1.0
    think_s: float = 0.0
    cap: int | None = None

    def load(self, values: Array) -> Load:
        """The load at these request rates, or with these numbers of clients."""
        rate = values if self.opens else None
        clients = None if self.opens else values
        return Load(self.lengths, rate, clients, self.burstiness, self.think_s)

    def named(self, value: float) -> dict[str, Any]:
        """One load as fields of a row: `request_rate`, `concurrency` (clients, or the limit on requests at
        once), or both.
        """
        if self.opens:
            return {"request_rate": value, "concurrency": self.cap}
        return {"request_rate": None, "concurrency": int(value)}
