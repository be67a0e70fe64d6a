"""Compares predicted latencies with the latency limits of a question."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.load.traffic_rows import TrafficRow


def limits_used(question: AdviseQuery, row: TrafficRow) -> dict[str, float]:
    """For each latency limit, the predicted 90th percentile of the latency divided by the limit. The ratio is
    infinite for a saturated server.

    - row: a prediction of `traffic` for one draft length.
    """
    used = {}
    for name, limit_ms in question.latency_limits_ms.items():
        time_s = row.by_limit[name]
        used[name] = float("inf") if time_s is None else time_s.p90 * 1e3 / limit_ms
    return used
