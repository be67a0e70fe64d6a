"""The loads of a question: request rates (an open loop), or numbers of clients (a closed loop)."""

from dataclasses import dataclass
from typing import Any

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Load


@dataclass(frozen=True, slots=True)
class Loop:
    """Loads of one kind.

    - opens: whether requests arrive at given rates (an open loop).
    - values: requests per second, or numbers of clients.
    - burstiness: shape parameter of the gamma distribution of the gaps between arrivals; 1 means Poisson
      arrivals.
    - think_s: mean time between an output and the client's next request.
    - cap: the largest number of requests at once in an open loop; None without a limit.
    """

    opens: bool
    values: Array
    lengths: Lengths
    burstiness: float = 1.0
    think_s: float = 0.0
    cap: int | None = None

    def load(self, values: Array) -> Load:
        """The load with these request rates or numbers of clients."""
        rate = values if self.opens else None
        clients = None if self.opens else values
        return Load(self.lengths, rate, clients, self.burstiness, self.think_s)

    def named(self, value: float) -> dict[str, Any]:
        """One load as the fields `request_rate` and `concurrency` of a row. `concurrency` is the number of
        clients, or the limit on requests at once.
        """
        if self.opens:
            return {"request_rate": value, "concurrency": self.cap}
        return {"request_rate": None, "concurrency": int(value)}
