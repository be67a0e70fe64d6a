"""Recommends a draft length at one load."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.text import clients, counted, request_rate
from perfmodel.answers.token_price import dollars_per_million_tokens
from perfmodel.queueing.policies import in_words

SHARE_DIGITS = 3
"""Number of decimals to which shares within the SLO are rounded before they are compared. A smaller
difference is a tie.
"""
RATE_DIGITS = 6
"""Number of decimals to which rates are rounded before they are compared."""


@dataclass(frozen=True, slots=True)
class TrafficVerdict:
    """The recommendation at one load.

    - gamma: the draft length with the most requests per second within the SLO. Among equally good lengths,
      the shortest mean time of a request decides.
    - speedup: the mean TPOT of the baseline divided by the mean TPOT with this draft length.
    - replicas: number of servers that the load needs.
    - dollars_per_million_tokens: the price of all these replicas per million output tokens.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    speedup: float
    replicas: int | None
    dollars_per_million_tokens: float | None
    reason: str


def verdict_of(question: TrafficQuery, rows: Sequence[TrafficRow], known: bool) -> TrafficVerdict:
    """The recommendation from the rows of one load. The first row must be that of the baseline.

    - known: whether the acceptance of the draft is known.
    """
    baseline = rows[0]
    served = [row for row in rows if not row.saturated] or rows
    best = max(served, key=_worth)
    speedup = baseline.tpot_s.mean / best.tpot_s.mean if best.tpot_s.mean else 1.0
    return TrafficVerdict(
        request_rate=best.request_rate,
        concurrency=best.concurrency,
        gamma=best.gamma,
        speedup=speedup,
        replicas=best.replicas,
        dollars_per_million_tokens=_dollars(question, best),
        reason=_reason(best, speedup, known),
    )


class Worth(NamedTuple):
    """The values by which the rows of a load are ranked. Rows are compared by the first value, and at a
    tie by the next. Larger values are better. The values are the requests per second within the SLO, the
    requests per second of a saturated server, and the negative mean time of a request.
    """

    within_slo_per_s: float
    saturated_per_s: float
    minus_time_s: float


def _worth(row: TrafficRow) -> Worth:
    share = 0.0 if row.slo_share is None else round(row.slo_share, SHARE_DIGITS)
    time_s = row.e2e_s or row.tpot_s  # a saturated server has no end of a request
    return Worth(
        within_slo_per_s=share * _counted_per_s(row),
        saturated_per_s=round(row.requests_per_s, RATE_DIGITS) if row.saturated else 0.0,
        minus_time_s=-time_s.mean,
    )


def _counted_per_s(row: TrafficRow) -> float:
    """The requests per second to which the share within the SLO applies. These are all requests that arrive
    or, on a saturated server, all that are served.

    The number that a replay happened to serve would make the choice depend on chance.
    """
    if row.request_rate is None or row.saturated:
        return row.requests_per_s
    return row.request_rate


def _dollars(question: TrafficQuery, best: TrafficRow) -> float | None:
    """Dollars per million output tokens, on all replicas that the load needs; None without a price."""
    replicas = 1
    tokens_per_s = best.output_tokens_per_s
    if best.request_rate is not None:
        replicas = best.replicas or 0
        tokens_per_s = best.request_rate * question.lengths.output_mean
    if question.price is None or not replicas or not tokens_per_s:
        return None
    devices = question.tp * question.pp * replicas
    return dollars_per_million_tokens(question.price, devices, tokens_per_s)


def _reason(best: TrafficRow, speedup: float, known: bool) -> str:
    """The verdict as a clause, with the load, the draft length, the replicas and the share within the SLO."""
    reason = f"{_load_in_words(best)}: {_length_in_words(best, speedup, known)}"
    if best.replicas is not None:
        reason += f", {counted(best.replicas, 'replica')}"
    if best.slo_share is not None:
        reason += f", {best.slo_share:.0%} of the requests within the SLO on one replica"
    return reason


def _load_in_words(row: TrafficRow) -> str:
    """The load in words, such as ``2 requests/s``, ``8 clients`` or ``2 requests/s by 8 clients``."""
    parts = []
    if row.request_rate is not None:
        parts.append(request_rate(row.request_rate))
    if row.concurrency is not None:
        parts.append(clients(row.concurrency))
    return " by ".join(parts)


def _length_in_words(best: TrafficRow, speedup: float, known: bool) -> str:
    """The draft length in words, or the reason why there is none."""
    if not best.saturation_rate:
        return "no request fits in memory"
    if not known:
        return "no acceptance is known for this draft, so only the baseline is predicted"
    if best.gamma == 0:
        return "do not speculate"
    length = in_words(best.gamma)
    chosen = f"draft by {length}" if isinstance(best.gamma, str) else length
    return f"{chosen}, {speedup:.2f} times as fast per token"
