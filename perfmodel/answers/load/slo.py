"""Computes the share of requests within the SLO, and the number of replicas that a request rate needs."""

import math
from typing import Protocol

import numpy as np

from perfmodel.answers.load.loop import Loop
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.served_load import ServedLoad
from perfmodel.queueing.steps import StepTimes

SHARE_WANTED = 0.9
"""Share of requests that must be within the SLO with the chosen number of replicas."""
MOST_REPLICAS = 4096
"""Largest number of replicas in the search for a number with which enough requests are within the SLO."""
TRIED = 16
"""How many numbers of replicas are computed at once in the search for the smallest sufficient number."""


class Times(Protocol):
    """Distributions of the times of requests, in seconds."""

    @property
    def ttft(self) -> Moments:
        """The distribution of the time to first token."""

    @property
    def tpot(self) -> Moments:
        """The distribution of the time per output token."""

    @property
    def e2e(self) -> Moments:
        """The distribution of the time to the last token."""


def slo_share(limits_s: dict[str, float], times: Times) -> Array:
    """The share of requests within all limits. TTFT and TPOT are assumed to be independent of each other."""
    share = np.ones(np.shape(times.tpot.mean))
    for name, limit in limits_s.items():
        if name != "e2e":
            share = share * getattr(times, name).below(limit)
    if "e2e" in limits_s:
        return np.minimum(share, times.e2e.below(limits_s["e2e"]))
    return share


def falling_slo_share(question: TrafficQuery, loop: Loop, steps: StepTimes, loads: Array) -> Array:
    """For each load, the smallest `slo_share` over this load and all lower loads."""
    lower = np.geomspace(loads.max() / 2.0**TRIED, loads.max(), TRIED)
    tried = np.union1d(lower if loop.opens else np.maximum(np.round(lower), 1.0), loads)
    served = serve(steps, loop.load(tried), question.limits, question.spread)
    least = np.minimum.accumulate(slo_share(question.limits_s, served))
    return np.asarray(least[np.searchsorted(tried, loads)])


def replicas_of(
    question: TrafficQuery,
    loop: Loop,
    steps: StepTimes,
    served: ServedLoad,
    rate: float,
    share: float | None,
) -> int | None:
    """The smallest number of replicas with which no replica is saturated and the share `SHARE_WANTED` of the
    requests is within the SLO. The result is None if no number is sufficient, and for clients.

    - share: share of requests within the SLO if one replica gets the whole load; None without an SLO.
    """
    if not loop.opens:
        return None
    least = math.floor(rate / served.saturation_rate) + 1
    if share is None or (least == 1 and share >= SHARE_WANTED):
        return least
    tried = np.unique(np.round(np.geomspace(least, max(MOST_REPLICAS, least), TRIED)))
    while True:
        split = serve(steps, loop.load(rate / tried), question.limits, question.spread)
        fine = slo_share(question.limits_s, split) >= SHARE_WANTED
        if not fine.any():
            return None
        first = int(np.argmax(fine))
        if not first or tried[first] - tried[first - 1] <= 1:
            return int(tried[first])
        tried = np.unique(np.round(np.linspace(tried[first - 1], tried[first], TRIED)))
