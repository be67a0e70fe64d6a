"""The rows of a traffic answer: one replica at one load and draft length, in seconds and shares."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.operations import Array


class MadeBy(StrEnum):
    """The method whose figures a row has."""

    CLOSED_FORM = "closed form"
    REPLAY = "replay"


def between(low: float, high: float, share: float) -> float:
    """Interpolates between two times: geometrically, or linearly if one of them is 0."""
    if low > 0 and high > 0:
        return float(low * (high / low) ** share)
    return low + share * (high - low)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of a time over requests, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, times_s: Array) -> "Percentiles":
        """The percentiles of the times of requests; 0 without requests."""
        if not times_s.size:
            return cls(0.0, 0.0, 0.0, 0.0)
        return cls(float(times_s.mean()), *map(float, np.quantile(times_s, (0.5, 0.9, 0.99))))

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """All of them, in order."""
        return self.mean, self.p50, self.p90, self.p99

    def times(self, factor: float) -> "Percentiles":
        """All of them multiplied by a factor."""
        return Percentiles(factor * self.mean, factor * self.p50, factor * self.p90, factor * self.p99)

    def at_least(self, other: "Percentiles") -> "Percentiles":
        """The higher value of each percentile."""
        return Percentiles(*map(max, self.figures, other.figures))

    def at_most(self, other: "Percentiles") -> "Percentiles":
        """The lower value of each percentile."""
        return Percentiles(*map(min, self.figures, other.figures))

    def between(self, other: "Percentiles", share: float) -> "Percentiles":
        """Interpolates between these percentiles and others, geometrically."""
        return Percentiles(*(between(a, b, share) for a, b in zip(self.figures, other.figures, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """One replica at one load and draft length. Fields without a value are None, such as the TTFT of a
    saturated server.

    request_rate: the rate of an open loop. concurrency: the clients of a closed loop. gamma: drafted
    tokens, or the name of a policy (``table``). running_mean: mean number of requests that decode.
    slo_share: share of requests within all limits. prefix_hit_rate: prompt tokens found in the prefix
    cache, over all prompt tokens. replicas: the number of replicas that the rate needs, within the SLO if
    one is given; None if no number suffices. tpot_interval, ttft_interval, throughput_interval: 90 %
    intervals of the means of TPOT and TTFT, and of output_tokens_per_s. made_by: the method; doubts: why
    the closed form does not hold at this load. In a row of a replay, means are over its requests, but
    `replicas` and `saturation_rate` always come from the closed form.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    running_mean: float
    tpot_s: Percentiles
    ttft_s: Percentiles | None = None
    e2e_s: Percentiles | None = None
    output_tokens_per_s: float
    requests_per_s: float
    saturation_rate: float
    slo_share: float | None = None
    kv_share: float
    prefix_hit_rate: float | None = None
    replicas: int | None = None
    tpot_interval: tuple[float, float] | None = None
    ttft_interval: tuple[float, float] | None = None
    throughput_interval: tuple[float, float] | None = None
    tokens_per_iteration: float
    made_by: MadeBy = MadeBy.CLOSED_FORM
    doubts: tuple[Doubt, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def by_limit(self) -> dict[str, Percentiles | None]:
        """The time to which each latency limit of an SLO applies."""
        return {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}

    @property
    def saturated(self) -> bool:
        """Whether more requests arrive than the replica can serve, and no limit holds them back."""
        if self.request_rate is None or self.concurrency is not None:
            return False
        return self.request_rate >= self.saturation_rate


def saturation_note(saturation_rate: float, replicas: int | None) -> str:
    """The warning of a row at a rate above that of one replica. replicas: number that the rate needs, if
    known.
    """
    number = "" if replicas is None else f": {replicas} replicas"
    return f"saturated at {saturation_rate:.3g}/s{number}"


def load_of(row: TrafficRow) -> float:
    """Requests per second, or clients."""
    return row.concurrency or 0.0 if row.request_rate is None else row.request_rate


INTERVALS = {
    "tpot_interval": ("tpot_low_s", "tpot_high_s"),
    "ttft_interval": ("ttft_low_s", "ttft_high_s"),
    "throughput_interval": ("output_tokens_per_s_low", "output_tokens_per_s_high"),
}
"""Field of a row -> the columns of its ends."""


def flat(row: TrafficRow) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name in ("tpot_s", "ttft_s", "e2e_s"):
            cells |= {f"{field.name}_{f.name}": getattr(value, f.name, None) for f in fields(Percentiles)}
        elif field.name in INTERVALS:
            cells |= dict(zip(INTERVALS[field.name], value or (None, None), strict=True))
        else:
            cells[field.name] = "; ".join(value) if field.name in ("doubts", "warnings") else value
    return cells
