"""The steady state of a server at one or more loads: batch, throughput and latencies."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.steps import StepTimes


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """Batch, throughput and latencies of a server, over ``[load]``. Times are in seconds.

    - saturated: whether more requests arrive than are served. TTFT is infinite in this case.
    - running: mean number of requests that decode.
    - share: share of time with n requests, over ``[load, n]``.
    - metastable: whether a second, larger running batch would also be stable at this rate.
    """

    lengths: Lengths
    running: Array
    requests_per_s: Array
    saturated: NDArray[np.bool_]
    ttft: Moments
    tpot: Moments
    saturation_rate: float
    share: Array
    metastable: NDArray[np.bool_]

    def gained(self, steps: StepTimes) -> Array:
        """Mean tokens per iteration of a request, ``[load]``. With a table of draft lengths, the mean depends
        on the batches in which the request decodes.
        """
        return seen_by_requests(steps, self.share) @ steps.gains

    @property
    def e2e(self) -> Moments:
        """Time from the arrival to the last token of a request, in seconds."""
        return whole_answer(self.lengths, self.ttft, self.tpot)


def whole_answer(lengths: Lengths, ttft: Moments, tpot: Moments) -> Moments:
    """Time from the arrival to the last token. The time after the first token is the number of further tokens
    times TPOT. These two factors are assumed to be independent.
    """
    mean = lengths.decoded
    variance = lengths.output_std**2
    both = mean**2 * tpot.variance + variance * (tpot.mean**2 + tpot.variance)
    return ttft + Moments(mean * tpot.mean, both, mean**3 * tpot.third)


def seen_by_requests(steps: StepTimes, share: Array) -> Array:
    """The share of its decoding time that a request spends in a batch of n requests, over ``[load, n]`` from
    n = 1.

    - share: share of the server's time during which n requests decode, from n = 0.
    """
    busy = share[:, 1:] * steps.batches
    return busy / busy.sum(1, keepdims=True)


def joined(parts: list[ServedLoad]) -> ServedLoad:
    """Joins the results of several blocks of loads into one result."""

    def whole(values: list[Any]) -> Any:
        if isinstance(values[0], Moments):
            each = (np.broadcast_arrays(v.mean, v.variance, v.third, v.least) for v in values)
            return Moments(*map(np.concatenate, zip(*each, strict=True)))
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return values[0]

    return ServedLoad(*(whole([getattr(part, f.name) for part in parts]) for f in fields(ServedLoad)))
