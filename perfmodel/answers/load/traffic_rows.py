"""The rows of an answer of `traffic`. Each row is the prediction for one replica at one load and draft
length.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.operations import Array


class MadeBy(StrEnum):
    """The method by which a row was computed."""

    CLOSED_FORM = "closed form"
    REPLAY = "replay"


def between(low: float, high: float, share: float) -> float:
    """Interpolates geometrically between two times, or linearly if one of them is 0.

    - share: 0 gives `low`, 1 gives `high`.
    """
    if low > 0 and high > 0:
        return float(low * (high / low) ** share)
    return low + share * (high - low)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The mean and percentiles of a time over requests, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, times_s: Array) -> "Percentiles":
        """The mean and percentiles of these times. All are 0 if there are no times."""
        if not times_s.size:
            return cls(0.0, 0.0, 0.0, 0.0)
        return cls(float(times_s.mean()), *map(float, np.quantile(times_s, (0.5, 0.9, 0.99))))

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """The mean and the percentiles, in the order of the fields."""
        return self.mean, self.p50, self.p90, self.p99

    def times(self, factor: float) -> "Percentiles":
        """The mean and the percentiles multiplied by a factor."""
        return Percentiles(factor * self.mean, factor * self.p50, factor * self.p90, factor * self.p99)

    def at_least(self, other: "Percentiles") -> "Percentiles":
        """For the mean and for each percentile, the larger of the two values."""
        return Percentiles(*map(max, self.figures, other.figures))

    def at_most(self, other: "Percentiles") -> "Percentiles":
        """For the mean and for each percentile, the smaller of the two values."""
        return Percentiles(*map(min, self.figures, other.figures))

    def between(self, other: "Percentiles", share: float) -> "Percentiles":
        """Interpolates geometrically between these values and those of `other`.

        - share: 0 gives these values, 1 those of `other`.
        """
        return Percentiles(*(between(a, b, share) for a, b in zip(self.figures, other.figures, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """The prediction for one replica at one load and draft length. A field without a value, such as the
    TTFT of a saturated server, is None.

    - request_rate: requests per second in an open loop.
    - concurrency: number of clients, or the limit on requests at once in an open loop.
    - gamma: drafted tokens, or the name of a policy such as ``table``.
    - running_mean: mean number of requests that decode.
    - slo_share: share of requests within all latency limits.
    - kv_share: share of the KV cache in use.
    - prefix_hit_rate: share of prompt tokens that the prefix cache holds.
    - replicas: the number of replicas with which the request rate is served, within the SLO if there is one;
      None if no number is sufficient.
    - tpot_interval, ttft_interval, throughput_interval: 90 % intervals of mean TPOT, mean TTFT and
      output_tokens_per_s.
    - made_by: the method by which the row was computed.
    - doubts: reasons why the closed form may be inaccurate at this load.

    `replicas` and `saturation_rate` come from the closed form even in a row from a replay.
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
        """The times to which the latency limits of an SLO apply, by the name of the limit."""
        return {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}

    @property
    def saturated(self) -> bool:
        """Whether more requests arrive than the replica can serve. The result is false in a closed loop, and
        in an open loop with a limit on requests at once.
        """
        if self.request_rate is None or self.concurrency is not None:
            return False
        return self.request_rate >= self.saturation_rate


def saturation_note(saturation_rate: float, replicas: int | None) -> str:
    """The warning of a row whose request rate saturates one replica.

    - replicas: number of replicas that the rate needs; None if unknown.
    """
    number = "" if replicas is None else f": {replicas} replicas"
    return f"saturated at {saturation_rate:.3g}/s{number}"


def load_of(row: TrafficRow) -> float:
    """The load of a row: requests per second, or the number of clients."""
    return row.concurrency or 0.0 if row.request_rate is None else row.request_rate


INTERVALS = {
    "tpot_interval": ("tpot_low_s", "tpot_high_s"),
    "ttft_interval": ("ttft_low_s", "ttft_high_s"),
    "throughput_interval": ("output_tokens_per_s_low", "output_tokens_per_s_high"),
}
"""Field of a row with an interval -> the columns for the two ends."""


def flat(row: TrafficRow) -> dict[str, Any]:
    """The values of a row by column of a table. A time has a column for its mean and for each percentile."""
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
