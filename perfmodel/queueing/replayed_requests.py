"""The result of a replay: the times of every request."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array


@dataclass(frozen=True, slots=True)
class ReplayedRequests:
    """Latencies of every request in seconds, in the order of arrival. running: mean number of decoding
    requests over time. hit_rate: share of prompt tokens that the prefix cache held.
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
        """The times to which each latency limit of an SLO applies."""
        return {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}

    @property
    def mean_tpot_s(self) -> float:
        """Mean TPOT over the requests with two output tokens or more; 0 without such requests."""
        several = self.tpot_s[self.output_tokens > 1]
        return float(several.mean()) if several.size else 0.0
