"""Latencies never fall as the rate rises.

Both methods have an error of some per cent: the closed form by its assumptions, a replay by the requests that
it draws. So a row may come out faster than one at a lower rate. Its times are then raised to those of the
lower rate.
"""

from collections.abc import Sequence
from dataclasses import replace

from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow


def never_falling(by_load: Sequence[Sequence[TrafficRow]]) -> list[list[TrafficRow]]:
    """The rows by load, with TTFT and TPOT of each draft length at least as long as at all lower rates, and a
    share within the SLO that is at most theirs. Policies that change the length, and clients, stay as they
    are.
    """
    highest = dict[int | str, TrafficRow]()
    raised: list[list[TrafficRow]] = [[] for _ in by_load]
    order = sorted(range(len(by_load)), key=lambda at: by_load[at][0].request_rate or 0.0)
    for at in order:
        for row in by_load[at]:
            lower = highest.get(row.gamma)
            if lower is not None and isinstance(row.gamma, int) and row.request_rate is not None:
                row = _at_least(row, lower)
            highest[row.gamma] = row
            raised[at].append(row)
    return raised


def _at_least(row: TrafficRow, lower: TrafficRow) -> TrafficRow:
    """The row, raised to the times of a lower rate."""
    raised = _slower(row, _factor(row.ttft_s, lower.ttft_s), _factor(row.tpot_s, lower.tpot_s))
    if raised.slo_share is not None and lower.slo_share is not None:
        return replace(raised, slo_share=min(raised.slo_share, lower.slo_share))
    return raised


def _factor(times: Percentiles | None, lower: Percentiles | None) -> float:
    """The factor, 1 or more, that raises a mean to the one at a lower rate."""
    if times is None or lower is None or not times.mean:
        return 1.0
    return max(lower.mean / times.mean, 1.0)


def _slower(row: TrafficRow, first: float, each: float) -> TrafficRow:
    """The row with its TTFT and its time per token multiplied by a factor each."""
    if first == each == 1.0:
        return row
    e2e = row.e2e_s
    if row.ttft_s is not None and e2e is not None and e2e.mean:
        added_s = (first - 1.0) * row.ttft_s.mean + (each - 1.0) * (e2e.mean - row.ttft_s.mean)
        e2e = e2e.times(1.0 + added_s / e2e.mean)
    return replace(
        row,
        ttft_s=row.ttft_s and row.ttft_s.times(first),
        tpot_s=row.tpot_s.times(each),
        e2e_s=e2e,
        running_mean=row.running_mean * each,
        kv_share=min(row.kv_share * each, 1.0),
        ttft_interval=_times(row.ttft_interval, first),
        tpot_interval=_times(row.tpot_interval, each),
    )


def _times(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    if interval is None:
        return None
    low, high = interval
    return low * factor, high * factor
