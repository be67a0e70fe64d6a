"""Finds a latency limit that servers can meet under a load, if they cannot meet the stated limit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_reasons import enough_text, served_with_draft
from perfmodel.answers.advice.one_alone import OneAlone
from perfmodel.answers.advice.other_servers import all_reaches, best_on, fewest_gpus
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.servers_needed import HEADROOM
from perfmodel.answers.advice.started import started

FARTHEST = 10.0
"""A limit is only named if it is at most this many times the stated limit."""
JOINT = 1.2
"""If there are several limits, the named limits are the 90th percentiles times this factor. Without the
factor, fewer than 90 % of the requests would be within all limits.
"""
LOADED = 1.25
"""The eased limit under a load, divided by the time of one request alone. A sufficient number of GPUs can
meet this limit.
"""


def with_eased_limits(
    question: AdviseQuery, layouts: list[Layout], limits: Sequence[str], formats: str = ""
) -> Alternative | None:
    """The servers of these layouts that come nearest to the latency limits under the whole load, with the
    limits that they can meet. The result is None if the servers are near saturation, exceed another limit, or
    exceed one of `limits` by more than the factor `FARTHEST`.

    - limits: names of the limits that may be eased.
    - formats: flags of smaller number formats in the question, for the text.
    """

    def times_ms(served: Served) -> dict[str, float]:
        """The 90th percentile of each limited latency, in milliseconds."""
        times_s = {limit: served.row.by_limit[limit] for limit in limits}
        return {limit: math.inf if time is None else time.p90 * 1e3 for limit, time in times_s.items()}

    def excess(served: Served) -> float:
        """The largest ratio of a latency to its limit. The ratio is infinite without headroom, or if requests
        wait for a seat and no limit applies to this wait.
        """
        row = served.row
        if served.queues and not {"ttft", "e2e"} & question.latency_limits_ms.keys():
            return math.inf
        if row.request_rate is not None and row.request_rate > HEADROOM * row.saturation_rate:
            return math.inf
        return max(time / question.latency_limits_ms[limit] for limit, time in times_ms(served).items())

    nearest = best_on(_limited(question, dict.fromkeys(limits)), layouts, excess)
    if nearest is None or excess(nearest) > FARTHEST:
        return None
    margin = JOINT if len(limits) > 1 else 1.0
    kept = {
        limit: max(_rounded_up(margin * time), question.latency_limits_ms[limit])
        for limit, time in times_ms(nearest).items()
    }
    eased = _limited(question, kept)
    served = best_on(eased, layouts)
    if served is None:
        return None
    these = "this GPU serves" if question.gpus == 1 else "these GPUs serve"
    flags = " ".join(filter(None, (formats, _flags(question, eased, limits))))
    return started(f"With {flags} {these} all of it: {served_with_draft(served)}", eased, served)


def fewest_with_eased_limit(question: AdviseQuery, alone: OneAlone) -> Alternative | None:
    """The smallest number of GPUs that serve the whole load within an eased limit. The eased limit is
    `LOADED` times the time of one request alone. The result is None if this is more than `FARTHEST` times the
    stated limit, or if no number of GPUs serves the load.
    """
    time_s = alone.served.row.by_limit[alone.limit]
    assert time_s is not None
    kept = _rounded_up(LOADED * time_s.p90 * 1e3)
    if kept > FARTHEST * question.latency_limits_ms[alone.limit]:
        return None
    eased = _limited(question, {alone.limit: kept})
    served = fewest_gpus(eased, all_reaches(eased))
    if served is None:
        return None
    flag = _flags(question, eased, [alone.limit])
    return started(f"With {flag}, {enough_text(served)}", eased, served)


def _limited(question: AdviseQuery, at_ms: Mapping[str, float | None]) -> AdviseQuery:
    """The question with new values for some limits.

    - at_ms: name of a limit -> its new value in milliseconds. None removes the limit.
    """
    slo = question.slo or {}
    bounds: dict[str, Any] = {f"max_{limit}_ms": at for limit, at in at_ms.items() if limit not in slo}
    others = {limit: bound for limit, bound in slo.items() if limit not in at_ms}
    kept = {limit: at for limit, at in at_ms.items() if limit in slo and at is not None}
    return replace(question, slo=others | kept or None, **bounds)


def _flags(question: AdviseQuery, eased: AdviseQuery, limits: Sequence[str]) -> str:
    """The eased limits as flags. Each limit has the flag with which the question states it."""
    slo = question.slo or {}
    at_ms = eased.latency_limits_ms
    flags = [f"--max-{limit}-ms {at_ms[limit]:g}" for limit in limits if limit not in slo]
    if any(limit in slo for limit in limits):
        flags.append("--slo " + ",".join(f"{name}:{bound:g}" for name, bound in (eased.slo or {}).items()))
    return " ".join(flags)


def _rounded_up(time_ms: float) -> float:
    """Rounds a time up to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(time_ms)) - 1)
    return float(f"{math.ceil(time_ms / unit) * unit:.2g}")
