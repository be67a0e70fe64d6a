"""Makes tables with a draft length for every batch size, or for every batch size and context.

A table is judged by its expected speedup, which is a mean over batch sizes. A baseline server is assumed to
spend the share w_b of its time at batch size b. Each doubling of the batch has the same share, so w_b is
proportional to log(1 + 1/b). With K_b drafted tokens, the time at b is divided by the predicted speedup(b,
K_b). The expected speedup is therefore 1 / (sum over b of w_b / speedup(b, K_b)).

Each change of K between neighbouring batch sizes costs a penalty (`hysteresis`, a share of the baseline's
time). The table minimises the time including these penalties. The table therefore only has another range if
this range saves more time than the penalties cost. A table with one K has no penalty, so the result is never
worse than the best single K. K = 0 is the baseline, with a speedup of exactly 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from perfmodel.errors import refuse
from perfmodel.operations import Array, Ints
from perfmodel.queueing.policies.table import walk
from perfmodel.speculation import Acceptance, Interval, Scenario, speedups

MAX_BATCH = 4096
"""The largest batch that a question may name."""
MAX_BATCHES = 256
"""The largest batch that is searched by default."""
AcceptanceAt = Callable[[float], Acceptance]
DEFAULT_HYSTERESIS = 0.002
"""The default penalty of a change, as a share of the baseline's time. The value is an assumption."""
CONTEXTS_PER_RANGE = 5


@dataclass(frozen=True, slots=True)
class Range:
    """A range of batch sizes, from `low` to `high` (both included), with one draft length.

    - tokens: this draft length.
    - speedup: the expected speedup in this range.
    - draft: the same as `tokens`, or the best length above 0 if `tokens` is 0.
    - draft_speedup: the expected speedup with `draft` tokens in this range.
    - interval: the 90 % interval of `draft_speedup`. The width follows from the error at the middle batch of
      the range. None means that this error is unknown.
    """

    low: int
    high: int
    tokens: int
    speedup: float
    draft: int
    draft_speedup: float
    interval: Interval | None = None

    @classmethod
    def of(cls, low: int, high: int, tokens: int, by_length: Sequence[float]) -> "Range":
        """A range without an interval.

        - by_length[K]: the expected speedup with K tokens in this range.
        """
        draft = tokens or int(np.argmax([0.0, *by_length[1:]]))
        return cls(low, high, tokens, by_length[tokens], draft, by_length[draft])


@dataclass(frozen=True)
class LengthTable:
    """The ranges of batch sizes for contexts from `context_low` to `context_high` (both included).

    - speedup: the expected speedup of the table.
    - best_constant: the best single draft length.
    - constant_speedup: the expected speedup with this length.
    - by_constant[K]: the expected speedup if the draft length is always K.
    """

    ranges: tuple[Range, ...]
    context_low: int
    context_high: int
    speedup: float
    best_constant: int
    constant_speedup: float
    by_constant: tuple[float, ...]

    @classmethod
    def at(cls, batch: int, context: int, tokens: int, by_constant: tuple[float, ...]) -> "LengthTable":
        """The table for one batch size, one context and one draft length.

        - by_constant: as in `LengthTable`.
        """
        single = Range.of(batch, batch, tokens, by_constant)
        speedup = by_constant[tokens]
        return cls((single,), context, context, speedup, tokens, speedup, by_constant)

    @property
    def compares(self) -> bool:
        """Whether any draft length was compared with the baseline."""
        return len(self.by_constant) > 1

    @property
    def max_tokens(self) -> int:
        """The largest draft length in the table."""
        return max(r.tokens for r in self.ranges)

    def single(self) -> "LengthTable":
        """A table with one range, which has the best single draft length at all batch sizes."""
        everywhere = Range.of(1, self.ranges[-1].high, self.best_constant, self.by_constant)
        return replace(self, ranges=(everywhere,), speedup=self.constant_speedup)


def length_tables(
    scenario: Scenario,
    contexts: Sequence[int],
    seats: Sequence[int],
    max_tokens: int,
    hysteresis: float = DEFAULT_HYSTERESIS,
    acceptance_at: AcceptanceAt | None = None,
) -> tuple[LengthTable, ...]:
    """Makes a table of draft lengths by batch size for each range of contexts.

    - contexts: the ends of the ranges in ascending order. The ends e_1, e_2, ... give the ranges 0 to e_1 -
      1, e_1 to e_2 - 1 and so on. The last range includes its end. Each range is represented by
      `CONTEXTS_PER_RANGE` contexts, evenly spaced on a logarithmic scale. Neighbouring ranges with the same
      largest batch share a table if separate tables would save at most the share `hysteresis` of the time.
    - seats: the largest batch in each range.
    - max_tokens: the largest draft length.
    - acceptance_at: a function that returns the acceptance at a context; None if it is the same at all
      contexts.

    Raises InputError for contexts that do not rise.
    """
    if any(b <= a for a, b in pairwise(contexts)):
        raise refuse("--context", None, "rising context lengths", list(contexts))
    longest = scenario.longest(max_tokens)
    if acceptance_at is not None:
        known = (scenario.with_acceptance(acceptance_at(float(end))) for end in contexts)
        longest = min(each.longest(longest) for each in known)
    merged: list[_Merged] = []
    for (low, high), most in zip(_spans(contexts), seats, strict=True):
        slowness = _slowness(scenario, inside(low, high), most, longest, acceptance_at)
        alone = _Merged(_table(slowness, _weights(most), hysteresis, low, high), slowness, 1)
        joint = _joint(merged[-1], alone, hysteresis) if merged else None
        if joint is None:
            merged.append(alone)
        else:
            merged[-1] = joint
    return tuple(each.table for each in merged)


def _spans(contexts: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last context of each range. A single context is a range with one context."""
    if len(contexts) == 1:
        return [(contexts[0], contexts[0])]
    highs = [*(end - 1 for end in contexts[:-1]), contexts[-1]]
    return list(zip([0, *contexts[:-1]], highs, strict=True))


class _Merged(NamedTuple):
    """Neighbouring ranges of contexts with one table.

    - slowness: the mean of 1/speedup over these ranges, of shape ``[batch, K]``.
    - spans: the number of ranges.
    """

    table: LengthTable
    slowness: Array
    spans: int


def _joint(before: _Merged, after: _Merged, hysteresis: float) -> _Merged | None:
    """Two neighbours with one table. The result is None if their largest batches differ, or if two tables
    save more than the share `hysteresis` of the time.
    """
    if len(before.slowness) != len(after.slowness):
        return None
    spans = before.spans + after.spans
    weights = _weights(len(after.slowness))
    slowness = (before.slowness * before.spans + after.slowness * after.spans) / spans
    table = _table(slowness, weights, hysteresis, before.table.context_low, after.table.context_high)
    apart = (before.spans / before.table.speedup + after.spans / after.table.speedup) / spans
    if 1 / table.speedup - apart > hysteresis:
        return None
    return _Merged(table, slowness, spans)


def inside(low: int, high: int) -> Array:
    """The contexts that represent a range."""
    return np.unique(np.round(np.geomspace(max(low, 1), max(high, 1), CONTEXTS_PER_RANGE)))


def _slowness(
    scenario: Scenario, contexts: Array, max_batch: int, longest: int, acceptance_at: AcceptanceAt | None
) -> Array:
    """The mean of 1/speedup over the contexts, of shape ``[batch, K]``."""
    parts = []
    for context in contexts.tolist():
        at = scenario if acceptance_at is None else scenario.with_acceptance(acceptance_at(context))
        parts.append(1.0 / speedups(at, np.arange(1.0, max_batch + 1), context, np.arange(longest + 1)))
    return np.asarray(np.mean(parts, axis=0))


def runs(chosen: Ints) -> tuple[tuple[int, int, int], ...]:
    """Combines neighbouring batch sizes with the same draft length into rows (first batch, last batch,
    tokens).

    - chosen: the draft length at each batch size, from batch 1 on.
    """
    ends = np.flatnonzero(np.append(np.diff(chosen) != 0, True)) + 1
    starts = np.concatenate(([0], ends[:-1])) + 1
    return tuple(zip(starts.tolist(), ends.tolist(), chosen[ends - 1].tolist(), strict=True))


def _weights(max_batch: int) -> Array:
    """The share w_b of the baseline's time at each batch size b. Each doubling of b has the same share."""
    octaves = np.log1p(1.0 / np.arange(1.0, max_batch + 1))
    return np.asarray(octaves / octaves.sum())


def _table(slowness: Array, weights: Array, hysteresis: float, low: int, high: int) -> LengthTable:
    """The best table for the contexts from `low` to `high`.

    - slowness: 1/speedup, of shape ``[batch, K]``.
    - weights: the share of the baseline's time at each batch size.
    """
    cost = slowness * weights[:, None]
    chosen = walk(cost, hysteresis)
    ranges = []
    for first, last, k in runs(chosen):
        batches = slice(first - 1, last)
        gained = weights[batches].sum() / cost[batches].sum(0)
        ranges.append(Range.of(first, last, k, gained.tolist()))
    constants = 1.0 / cost.sum(0)
    best = int(np.argmax(constants))
    expected = float(1.0 / np.take_along_axis(cost, chosen[:, None], 1).sum())
    return LengthTable(
        ranges=tuple(ranges),
        context_low=low,
        context_high=high,
        speedup=max(expected, float(constants[best])),
        best_constant=best,
        constant_speedup=float(constants[best]),
        by_constant=tuple(float(c) for c in constants),
    )
