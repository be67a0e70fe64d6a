"""If servers cannot meet a stated latency limit under a load, finds the limit that they can meet."""

import math
from dataclasses import replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_load import started
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_reasons import enough_text, served_with_draft
from perfmodel.answers.advice.one_alone import OneAlone
from perfmodel.answers.advice.other_servers import all_reaches, best_on, fewest_gpus
from perfmodel.answers.advice.served import Served

FARTHEST = 10.0
"""A limit over this many times as long as the stated one is not named."""
LOADED = 1.25
"""A limit that some number of GPUs keeps under a load, over the time of one request alone."""


def with_eased_limit(question: AdviseQuery, layouts: list[Layout], limit: str) -> Alternative | None:
    """The servers of these layouts that come nearest to one limit under the whole load, with the limit
    that they meet. None if they are saturated, exceed another limit, or exceed this one by more than a
    factor of `FARTHEST`.
    """

    def time_ms(served: Served) -> float:
        """The 90th percentile of what is limited."""
        time_s = served.row.by_limit[limit]
        return math.inf if time_s is None else time_s.p90 * 1e3

    nearest = best_on(_limited(question, limit, None), layouts, time_ms)
    if nearest is None or time_ms(nearest) > FARTHEST * question.latency_limits_ms[limit]:
        return None
    kept = _rounded_up(time_ms(nearest))
    eased = _limited(question, limit, kept)
    served = best_on(eased, layouts)
    if served is None:
        return None
    these = "this GPU serves" if question.gpus == 1 else "these GPUs serve"
    flag = _flag(question, eased, limit, kept)
    return started(f"With {flag} {these} all of it: {served_with_draft(served)}", eased, served)


def fewest_with_eased_limit(question: AdviseQuery, alone: OneAlone) -> Alternative | None:
    """The fewest GPUs that serve the whole load within an eased limit, which is `LOADED` times the time of
    one request alone. None if this is more than `FARTHEST` times the stated limit, or if no number of GPUs
    serves the load.
    """
    time_s = alone.served.row.by_limit[alone.limit]
    assert time_s is not None
    kept = _rounded_up(LOADED * time_s.p90 * 1e3)
    if kept > FARTHEST * question.latency_limits_ms[alone.limit]:
        return None
    eased = _limited(question, alone.limit, kept)
    served = fewest_gpus(eased, all_reaches(eased))
    if served is None:
        return None
    flag = _flag(question, eased, alone.limit, kept)
    return started(f"With {flag}, {enough_text(served)}", eased, served)


def _limited(question: AdviseQuery, limit: str, at_ms: float | None) -> AdviseQuery:
    """The question with another value of one limit, or without it."""
    if limit in (question.slo or {}):
        others = {name: bound for name, bound in (question.slo or {}).items() if name != limit}
        return replace(question, slo=others | ({} if at_ms is None else {limit: at_ms}) or None)
    bound: dict[str, Any] = {f"max_{limit}_ms": at_ms}
    return replace(question, **bound)


def _flag(question: AdviseQuery, eased: AdviseQuery, limit: str, kept_ms: float) -> str:
    """The limit as the question states it."""
    if limit in (question.slo or {}):
        return "--slo " + ",".join(f"{name}:{bound:g}" for name, bound in (eased.slo or {}).items())
    return f"--max-{limit}-ms {kept_ms:g}"


def _rounded_up(time_ms: float) -> float:
    """A time with two digits."""
    unit = 10.0 ** (math.floor(math.log10(time_ms)) - 1)
    return float(f"{math.ceil(time_ms / unit) * unit:.2g}")
