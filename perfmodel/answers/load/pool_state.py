"""The state of a prefill pool and a decode pool at one request rate: batch, utilisation, and the times of a
request.
"""

from dataclasses import astuple, dataclass, replace

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.served_load import whole_answer


@dataclass(frozen=True, slots=True)
class Prompts:
    """The times of prompts on one prefill instance.

    - alone_s: time of one prompt alone, in seconds.
    - each_s: time per prompt if passes are full of prompts.
    - cv: coefficient of variation of the computed tokens per prompt.
    - hit_rate: share of prompt tokens that the prefix cache holds; None without a prefix cache.
    """

    alone_s: float
    each_s: float
    cv: float = 0.0
    hit_rate: float | None = None


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """The distributions over requests of TTFT and TPOT, in seconds."""

    ttft: Moments
    tpot: Moments
    lengths: Lengths

    @property
    def e2e(self) -> Moments:
        """The distribution of the time to the last token, in seconds."""
        return whole_answer(self.lengths, self.ttft, self.tpot)


@dataclass(frozen=True, slots=True)
class PoolState:
    """The state of both pools.

    - rate: requests per second of all instances together.
    - batch: number of decoding requests of one decode instance.
    - step_s: time of an iteration with this batch.
    - queue_s: waiting time in the queue of the prefill pool.
    - used: load of the prefill pool divided by its capacity.
    - waiting_s: time that requests wait because both pools are full.
    """

    rate: float
    batch: float
    step_s: float
    tpot_s: float
    ttft_s: float
    queue_s: float
    used: float
    waiting_s: float = 0.0

    def between(self, other: "PoolState", share: float) -> "PoolState":
        """Interpolates linearly between this state and another state.

        - share: 0 gives this state, 1 the other.
        """
        ends = zip(astuple(self), astuple(other), strict=True)
        return PoolState(*(low + share * (high - low) for low, high in ends))

    def waited(self, seconds: float) -> "PoolState":
        """The state with an additional wait before the pools accept a request."""
        return replace(self, ttft_s=self.ttft_s + seconds, waiting_s=seconds)
