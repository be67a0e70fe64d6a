"""What two pools do at one rate: their batches and loads, and the times of a request."""

from dataclasses import astuple, dataclass, replace

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.served_load import whole_answer


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts on one prefill instance. alone_s: seconds of one prompt alone. each_s: seconds per prompt in
    full passes. cv: coefficient of variation of the tokens that are read. hit_rate: share of prompt tokens
    that a prefix cache holds; None without one.
    """

    alone_s: float
    each_s: float
    cv: float = 0.0
    hit_rate: float | None = None


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """Times of a request over requests, in seconds."""

    ttft: Moments
    tpot: Moments
    lengths: Lengths

    @property
    def e2e(self) -> Moments:
        """Time to the last token."""
        return whole_answer(self.lengths, self.ttft, self.tpot)


@dataclass(frozen=True, slots=True)
class PoolState:
    """Both pools at a rate of all requests. batch: decoding requests of one instance. step_s: seconds of
    its iteration. used: load of the prefill pool over its capacity. waiting_s: seconds that clients wait
    in front of full pools.
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
        """Interpolates between this state and another one."""
        ends = zip(astuple(self), astuple(other), strict=True)
        return PoolState(*(low + share * (high - low) for low, high in ends))

    def waited(self, seconds: float) -> "PoolState":
        """The state with a wait in front of the pools."""
        return replace(self, ttft_s=self.ttft_s + seconds, waiting_s=seconds)
