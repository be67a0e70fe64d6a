"""Ranks the points of `advise`. A point is a candidate at one batch and draft length. This module finds the
best point of a candidate, the best layout, and the Pareto fronts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.prices import Priced
from perfmodel.answers.token_price import dollars_per_million_tokens
from perfmodel.operations import Array
from perfmodel.speculation.length_to_run import length_to_run

ALIKE = 0.025
"""A simpler layout is chosen if it is worse than the best layout by at most this share. Both are compared at
their best draft length.
"""
ROUNDING = 1e-9
"""Two throughputs count as equal if they differ by at most this share."""


@dataclass(frozen=True, slots=True)
class PricedPoint:
    """A candidate at one batch and draft length.

    - batch: number of sequences in one server.
    - gained: tokens per iteration.
    - value: the value of the objective, with a larger value for a better point.
    - most: the value at the best draft length, which may be longer than `gamma`.
    """

    candidate: Candidate
    batch: int
    gamma: int
    gained: float
    tpot_s: float
    value: float
    most: float

    @property
    def layout(self) -> Layout:
        """The layout of the candidate."""
        return self.candidate.layout

    def times(self, other: "PricedPoint", query: AdviseQuery) -> float:
        """How many times better this point is than the other point according to the objective."""
        if query.objective == "throughput":
            return self.value / other.value
        return other.value / self.value


def best(priced: Priced, query: AdviseQuery) -> PricedPoint | None:
    """The best allowed point of one candidate, or None. Of equally good points, the result has the
    smallest batch. `length_to_run` selects the draft length.
    """
    if not priced.allowed.any():
        return None
    values = worth(query, priced.batches[:, None], priced.tpot_s, priced.candidate.layout)
    value = np.where(priced.allowed, values, -np.inf)
    by_length = np.max(value, 0)
    with np.errstate(divide="ignore"):
        costs = 1.0 / np.maximum(by_length, 0.0) if query.objective == "throughput" else -by_length
    j = int(length_to_run(priced.candidate.scenario, float(query.context), costs))
    i = int(np.argmax(value[:, j]))
    return PricedPoint(
        candidate=priced.candidate,
        batch=int(priced.batches[i]),
        gamma=int(priced.drafted[j]),
        gained=float(priced.gained[j]),
        tpot_s=float(priced.tpot_s[i, j]),
        value=float(value[i, j]),
        most=float(np.max(by_length)),
    )


def best_of(priced: Iterable[Priced], query: AdviseQuery) -> PricedPoint | None:
    """The best allowed point of several candidates, or None. Among equally good points, the result is that of
    the first candidate.
    """
    points = [point for each in priced if (point := best(each, query)) is not None]
    return max(points, key=lambda point: point.value, default=None)


def worth(query: AdviseQuery, batch: Array, tpot_s: Array, layout: Layout) -> Array:
    """The value of the objective, with a larger value for a better point. The value is the tokens/s per GPU,
    the negative TPOT in seconds, or the negative price of a million tokens in dollars. Idle GPUs are counted
    too.
    """
    if query.objective == "latency":
        return -tpot_s
    sequences = layout.replicas * batch
    if query.objective == "throughput":
        return sequences / tpot_s / layout.gpus
    assert query.dollars is not None
    with np.errstate(divide="ignore"):  # an infinite TPOT has an infinite price
        return -dollars_per_million_tokens(query.dollars, layout.gpus, sequences / tpot_s)


def choose(points: Sequence[PricedPoint], query: AdviseQuery) -> PricedPoint | None:
    """The best point on the simplest of the nearly best layouts. A layout is nearly the best if its best
    point is worse than the best point of all layouts by at most the share `ALIKE`. Among equally good points,
    the result is the first one.
    """
    if not points:
        return None
    top = max(points, key=lambda p: p.most)
    fastest = replace(top, value=top.most)
    best_of_all = max(points, key=lambda p: p.value)
    close = [p for p in points if p is best_of_all or fastest.times(p, query) <= 1.0 + ALIKE]
    simplest = min(p.layout.simplicity for p in close)
    return max((p for p in close if p.layout.simplicity == simplest), key=lambda p: p.value)


def best_of_each_layout(points: Sequence[PricedPoint]) -> list[PricedPoint]:
    """The best point of each layout. The best layout comes first."""
    best_points: dict[Layout, PricedPoint] = {}
    for point in sorted(points, key=lambda p: -p.value):
        best_points.setdefault(point.layout, point)
    return list(best_points.values())


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A point of a Pareto front. No other point has both a higher throughput per device and a shorter time
    per token.

    - batch, throughput_tokens_per_s: values of one server.
    - tp: number of devices of one server.
    """

    tpot_s: float
    throughput_tokens_per_s: float
    throughput_tokens_per_s_per_device: float
    batch: int
    gamma: int
    layout: str
    tp: int
    draft: str | None
    draft_kv: str | None


@dataclass(frozen=True, slots=True)
class Fronts:
    """The Pareto fronts of throughput per device against time per token, for the baseline and for
    speculation.
    """

    baseline: tuple[FrontPoint, ...]
    speculating: tuple[FrontPoint, ...]


NO_FRONTS = Fronts((), ())
"""The fronts of an answer that has no predictions by batch."""


def front(priced: list[Priced]) -> tuple[FrontPoint, ...]:
    """The Pareto front of the points that fit in memory, from the shortest time per token to the highest
    throughput per device.
    """
    if not any(x.fits.any() for x in priced):
        return ()
    speed = np.concatenate([np.where(x.fits, x.tpot_s, np.inf).ravel() for x in priced])
    rate = np.concatenate([_per_gpu(x).ravel() for x in priced])
    order = np.argsort(speed, kind="stable")
    top = np.maximum.accumulate(rate[order])
    rises = np.concatenate(([True], top[1:] > top[:-1] * (1 + ROUNDING)))
    unbeaten = order[rises & np.isfinite(speed[order])]
    starts = np.cumsum([0, *(x.tpot_s.size for x in priced)])
    points = []
    for at in unbeaten:
        which = int(np.searchsorted(starts, at, "right")) - 1
        winner = priced[which]
        i, j = divmod(int(at - starts[which]), winner.tpot_s.shape[1])
        points.append(_front_point(winner, i, j, float(rate[at])))
    return tuple(points)


def _front_point(priced: Priced, i: int, j: int, per_gpu: float) -> FrontPoint:
    """The point of a candidate at batch `batches[i]` and draft length `drafted[j]`.

    - per_gpu: its tokens per second per GPU.
    """
    gamma = int(priced.drafted[j])
    draft = priced.candidate.scenario.draft
    layout = priced.candidate.layout
    batch = int(priced.batches[i])
    tpot_s = float(priced.tpot_s[i, j])
    return FrontPoint(
        tpot_s=tpot_s,
        throughput_tokens_per_s=batch / tpot_s,
        throughput_tokens_per_s_per_device=per_gpu,
        batch=batch,
        gamma=gamma,
        layout=layout.label(),
        tp=layout.server_gpus,
        draft=draft.name if gamma else None,
        draft_kv=draft.kv.label() if gamma else None,
    )


def _per_gpu(priced: Priced) -> Array:
    """Tokens per second per GPU, of shape ``[batch, gamma]``; 0 if the batch does not fit in memory."""
    layout = priced.candidate.layout
    rate = layout.replicas * priced.batches[:, None] / priced.tpot_s / layout.gpus
    return np.where(priced.fits, rate, 0.0)
