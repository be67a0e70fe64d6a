"""The result of a replay: the times of every request."""

from dataclasses import dataclass

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
