"""Compares predicted latencies with the latency limits."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.load.traffic_rows import TrafficRow


def limits_used(question: AdviseQuery, row: TrafficRow) -> dict[str, float]:
    """The predicted 90th percentile of each limited latency, divided by its limit; infinite for a
    saturated server. row: a prediction of `traffic` for one draft length.
    """
    used = {}
    for name, limit_ms in question.latency_limits_ms.items():
        time_s = row.by_limit[name]
        used[name] = float("inf") if time_s is None else time_s.p90 * 1e3 / limit_ms
    return used
