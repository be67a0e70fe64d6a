"""The result of a replay: the times of every request."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array


@dataclass(frozen=True, slots=True)
class ReplayedRequests:
    """The result of a replay. The arrays have one value per request, in the order of arrival. Times are in
    seconds.

    - running: mean number of decoding requests over time.
    - hit_rate: share of prompt tokens that were in the prefix cache. It is None without a prefix cache.
    """

    ttft_s: Array
    tpot_s: Array
    e2e_s: Array
    output_tokens: NDArray[np.int64]
    running: float
    duration_s: float
    preemptions: int
    hit_rate: float | None = None

    def in_steady_state(self, clients: int) -> "ReplayedRequests":
        """The results of a closed loop without the first request of each client. All clients send their first
        request at the same time, so these requests wait for less time or for more time than later ones. The
        throughput follows from Little's law.
        """
        if self.ttft_s.size <= clients:
            return self
        e2e_s = self.e2e_s[clients:]
        duration_s = float(e2e_s.sum()) / clients
        faster = (e2e_s.size / duration_s) / (self.e2e_s.size / self.duration_s)
        return replace(
            self,
            ttft_s=self.ttft_s[clients:],
            tpot_s=self.tpot_s[clients:],
            e2e_s=e2e_s,
            output_tokens=self.output_tokens[clients:],
            running=min(self.running * faster, float(clients)),
            duration_s=duration_s,
        )

    @property
    def by_limit(self) -> dict[str, Array]:
        """The times of all requests, by the name of the SLO limit that applies to them (`ttft`, `tpot` or
        `e2e`).
        """
        return {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}

    @property
    def mean_tpot_s(self) -> float:
        """Mean TPOT over all requests with at least two output tokens. The result is 0 if there is no such
        request.
        """
        several = self.tpot_s[self.output_tokens > 1]
        return float(several.mean()) if several.size else 0.0
