"""Ensures that predicted latencies do not fall as the load rises.

The closed form has an error of a few per cent because of its assumptions. A replay has such an error because
its requests are random. The times of a row may therefore be shorter than the times at a lower load. Such
times are raised to the times at the lower load.
"""

from collections.abc import Sequence
from dataclasses import replace

from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow, load_of


def never_falling(by_load: Sequence[Sequence[TrafficRow]]) -> list[list[TrafficRow]]:
    """The rows of each load, with corrections. For each draft length, TTFT and TPOT are then at least as long
    as at all lower loads. The share of requests within the SLO is at most as large as at all lower loads.
    """
    highest = dict[int | str, TrafficRow]()
    raised: list[list[TrafficRow]] = [[] for _ in by_load]
    for at in sorted(range(len(by_load)), key=lambda at: load_of(by_load[at][0])):
        for row in by_load[at]:
            lower = highest.get(row.gamma, row)
            highest[row.gamma] = at_least(row, lower)
            raised[at].append(highest[row.gamma])
    return raised


def at_least(row: TrafficRow, lower: TrafficRow) -> TrafficRow:
    """The row with times that are at least those of `lower`, a row at a lower load. The mean and each
    percentile are raised separately. The share of requests within the SLO is lowered in the same way.
    """
    share = row.slo_share
    if share is not None and lower.slo_share is not None:
        share = min(share, lower.slo_share)
    ttft_s = row.ttft_s
    if ttft_s is not None and lower.ttft_s is not None:
        ttft_s = ttft_s.at_least(lower.ttft_s)
    raised = _with_times(row, ttft_s, row.tpot_s.at_least(lower.tpot_s))
    e2e_s = raised.e2e_s
    if e2e_s is not None and lower.e2e_s is not None:
        e2e_s = e2e_s.at_least(lower.e2e_s)
    if share == raised.slo_share and e2e_s == raised.e2e_s:
        return raised
    return replace(raised, slo_share=share, e2e_s=e2e_s)


def at_most(row: TrafficRow, higher: TrafficRow) -> TrafficRow:
    """The row with a TTFT and TPOT that are at most those of `higher`, a row at a higher load."""
    ttft_s = row.ttft_s
    if ttft_s is not None and higher.ttft_s is not None:
        ttft_s = ttft_s.at_most(higher.ttft_s)
    return _with_times(row, ttft_s, row.tpot_s.at_most(higher.tpot_s))


def _with_times(row: TrafficRow, ttft_s: Percentiles | None, tpot_s: Percentiles) -> TrafficRow:
    """The row with another TTFT and TPOT, and with all values that depend on them."""
    if ttft_s == row.ttft_s and tpot_s == row.tpot_s:
        return row
    first = _factor(row.ttft_s, ttft_s)
    each = _factor(row.tpot_s, tpot_s)
    return replace(
        row,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        e2e_s=_longer(row, first, each),
        running_mean=row.running_mean * each,
        kv_share=min(row.kv_share * each, 1.0),
        ttft_interval=_times(row.ttft_interval, first),
        tpot_interval=_times(row.tpot_interval, each),
    )


def _factor(before: Percentiles | None, after: Percentiles | None) -> float:
    """The ratio of a mean after a change to the mean before it; 1 if there is no mean."""
    if before is None or after is None or not before.mean:
        return 1.0
    return after.mean / before.mean


def _longer(row: TrafficRow, first: float, each: float) -> Percentiles | None:
    """The time of a whole request after its TTFT and its time per token were each multiplied by a factor."""
    if row.ttft_s is None or row.e2e_s is None or not row.e2e_s.mean:
        return row.e2e_s
    added_s = (first - 1.0) * row.ttft_s.mean + (each - 1.0) * (row.e2e_s.mean - row.ttft_s.mean)
    return row.e2e_s.times(1.0 + added_s / row.e2e_s.mean)


def _times(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    if interval is None:
        return None
    low, high = interval
    return low * factor, high * factor
