"""Computes how certain the choice of `advise` is: the interval of its gain, and the acceptance at which the
choice would change. This module also computes the break-even acceptance of drafts whose acceptance was not
measured.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.accepted_drafts import without_acceptance
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.ranking import PricedPoint, best, best_of
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation import (
    alpha_from_tokens_per_iteration,
    interval_of,
    log_error,
    log_middle,
    step_log_error,
)

MOST_BATCHES = 256
"""Largest number of batch sizes to try, without that of the baseline. From a longer list, evenly spaced
values are taken.
"""
WORTH_A_DRAFT = 1.1
"""Smallest gain for which a draft is recommended although its gain is too close to call."""


def worth_the_risk(gain: float, interval: tuple[float, float]) -> bool:
    """Whether to recommend a draft although its gain is too close to call. The gain must be at least
    `WORTH_A_DRAFT`, and at least as large as the possible loss. In other words, the product of `gain` and
    `interval[0]` must be at least 1.
    """
    return gain >= WORTH_A_DRAFT and gain * interval[0] >= 1.0


@dataclass(frozen=True, slots=True)
class Robustness:
    """How certain the choice is. If the answer has an `option`, all fields except `gain_over_runner_up` are
    about the draft of the option. Under a load, only the gain over the baseline is given: the speedup of
    `whatif` at the mean batch.

    - alpha: the acceptance of the chosen draft, as one value for all positions.
    - smallest_alpha, smallest_tokens_per_iteration: the values at which the draft would only be as good as
      the best baseline, or would just meet the bound on TPOT, at this batch and gamma.
    - robust: whether the whole interval of the gain is above 1.
    """

    gain_over_baseline: float | None
    gain_over_baseline_interval: tuple[float, float] | None
    gain_over_runner_up: float | None
    alpha: float | None
    smallest_alpha: float | None
    smallest_tokens_per_iteration: float | None
    robust: bool | None

    @property
    def worth_the_risk(self) -> bool:
        """Whether to recommend the draft although its gain is too close to call."""
        gain = self.gain_over_baseline
        interval = self.gain_over_baseline_interval
        return gain is None or interval is None or worth_the_risk(gain, interval)

    def over(self, chosen: PricedPoint, others: list[PricedPoint], query: AdviseQuery) -> "Robustness":
        """A copy with the gain of the choice over the runner-up.

        - others: the other points, with the best point first.
        """
        return replace(self, gain_over_runner_up=chosen.times(others[0], query) if others else None)


def robustness_of(
    query: AdviseQuery,
    chosen: PricedPoint,
    baseline: PricedPoint | None,
    alone: list[Priced],
    searched: list[Priced],
) -> Robustness:
    """Computes how certain the gain of `chosen` over the best baseline is.

    - alone: the candidates without a draft.
    - searched: the candidates with a draft that may be recommended.
    """
    gain = None if baseline is None else chosen.times(baseline, query)
    alpha = smallest = fewest = interval = None
    if chosen.gamma and gain is not None and baseline is not None:
        fewest = max(chosen.gained / gain, 1.0)
        if query.max_tpot_s is not None:  # with fewer tokens per iteration, each token takes longer
            fewest = max(fewest, chosen.gained * chosen.tpot_s / query.max_tpot_s)
        priced = next(x for x in searched if x.candidate is chosen.candidate)
        interval = _gain_interval(query, chosen, baseline, priced)
        if interval is not None and query.max_tpot_s is not None:
            without = next(x for x in alone if x.candidate is baseline.candidate)
            interval = _with_steps(gain, interval, _gains_by_step(query, chosen, priced, without))
        alpha = float(alpha_from_tokens_per_iteration(chosen.gained, chosen.gamma))
        smallest = float(alpha_from_tokens_per_iteration(fewest, chosen.gamma))
    return Robustness(
        gain_over_baseline=gain,
        gain_over_baseline_interval=interval,
        gain_over_runner_up=None,
        alpha=alpha,
        smallest_alpha=smallest,
        smallest_tokens_per_iteration=fewest,
        robust=None if interval is None else interval[0] > 1,
    )


def _gain_interval(
    query: AdviseQuery, chosen: PricedPoint, baseline: PricedPoint, priced: Priced
) -> tuple[float, float] | None:
    """The gain over the best baseline if the draft is slower, and if it is faster, by the error of the point.

    The batch is chosen again for both, because a bound on the time per token applies there too. No
    verification is faster than a baseline step. The result is None if the calibration has no error.
    """
    s = chosen.candidate.scenario
    context = float(query.context)
    error = log_error(s, np.asarray(float(chosen.batch)), np.asarray(context), np.array([chosen.gamma]))
    if error is None:
        return None
    factor = interval_of(1.0, float(error[..., 0]))[1]
    column = int(np.flatnonzero(priced.drafted == chosen.gamma)[0])
    least_s = np.asarray(s.target_pass_s(priced.batches, context)) / chosen.gained
    usual_s = priced.tpot_s[:, column]
    gains = []
    fits = priced.fits[:, [column]]
    shift = log_middle(s) * extra_share(usual_s / least_s) if chosen.gamma else 0.0
    middle_s = usual_s / np.exp(shift)
    slower_s = np.maximum(middle_s * factor, usual_s)
    faster_s = np.minimum(np.maximum(middle_s / factor, least_s), usual_s)
    for tpot_s in (slower_s, faster_s):
        within = tpot_s[:, None] <= (query.max_tpot_s or np.inf)
        changed = replace(
            priced,
            tpot_s=np.where(fits, tpot_s[:, None], np.inf),
            allowed=fits & within,
        )
        point = best(changed, query)
        if point is None:
            gains.append(chosen.times(baseline, query) / factor)
        else:
            gains.append(point.times(baseline, query))
    return gains[0], gains[1]


def _gains_by_step(query: AdviseQuery, chosen: PricedPoint, priced: Priced, alone: Priced) -> list[float]:
    """The gains if all steps are slower, and if all steps are faster, by their error. With a bound on the
    time per token, the draft and the baseline then have other batches. A gain is left out if one of them
    exceeds the bound.
    """
    s = chosen.candidate.scenario
    error = step_log_error(s, None, float(chosen.batch), float(query.context))
    if error is None:
        return []
    column = [int(np.flatnonzero(priced.drafted == chosen.gamma)[0])]
    drafted = replace(
        priced, drafted=priced.drafted[column], tpot_s=priced.tpot_s[:, column], fits=priced.fits[:, column]
    )
    gains = []
    for factor in interval_of(1.0, float(error)):
        with_draft = _within(query, drafted, factor)
        without = _within(query, alone, factor)
        if with_draft is not None and without is not None:
            gains.append(with_draft.times(without, query))
    return gains


def _within(query: AdviseQuery, priced: Priced, factor: float) -> PricedPoint | None:
    """The best point within the bound if all times are multiplied by a factor; None if no point is within the
    bound.
    """
    tpot_s = priced.tpot_s * factor
    allowed = priced.fits & (tpot_s <= (query.max_tpot_s or np.inf))
    return best(replace(priced, tpot_s=tpot_s, allowed=allowed), query)


def _with_steps(gain: float, interval: tuple[float, float], by_step: list[float]) -> tuple[float, float]:
    """Widens an interval of the gain by the error of the steps, which is independent of the other errors.

    - by_step: the gains at the ends of the error of the steps.
    """
    low, high = interval
    down = [math.log(gain / low), *(math.log(gain / other) for other in by_step if other < gain)]
    up = [math.log(high / gain), *(math.log(other / gain) for other in by_step if other > gain)]
    return gain / math.exp(math.hypot(*down)), gain * math.exp(math.hypot(*up))


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The smallest acceptance with which a draft is faster than the best baseline, at this gamma and batch.

    - smallest_alpha: this acceptance, the same at all positions.
    """

    draft: str
    draft_kv: str
    draft_tp: int
    gamma: int
    batch: int
    smallest_alpha: float


def break_evens(query: AdviseQuery, baseline: PricedPoint) -> tuple[BreakEven, ...]:
    """The break-even acceptance of each draft whose acceptance is unknown, with the smallest value first. For
    a draft with several KV methods, the method with the smallest value is used.

    All drafts have the layout of the best baseline. Drafts that the engine does not run are only included
    with `any_draft`. A draft is left out if it does not pay off even if every token is accepted.
    """
    accepted, drafted = _all_accepted(query, baseline)
    least: dict[str, BreakEven] = {}
    reachable = [even for x in drafted if (even := _break_even(x, accepted, baseline)) is not None]
    for even in sorted(reachable, key=lambda even: even.smallest_alpha):
        least.setdefault(even.draft, even)
    return tuple(least.values())


def surest_draft(query: AdviseQuery, baseline: PricedPoint) -> PricedPoint | None:
    """The best point with a draft whose acceptance is unknown, if every token is accepted. The layout is that
    of the best baseline. The result is None if no such draft runs and fits in memory.
    """
    accepted, drafted = _all_accepted(query, baseline)
    return best_of(drafted, accepted)


def _all_accepted(query: AdviseQuery, baseline: PricedPoint) -> tuple[AdviseQuery, list[Priced]]:
    """The drafts whose acceptance is unknown, if every token is accepted, and the question about them."""
    certain = "/".join(["1"] * query.max_gamma)
    rates = {f"{name}@{kv.label()}": certain for name, kv in without_acceptance(query)}
    searched = query.batches(baseline.layout)
    step = -(-searched.size // MOST_BATCHES)
    batches = tuple(np.union1d(searched[::step], [baseline.batch]))
    accepted = replace(
        query,
        rate=rates,
        draft=None,
        draft_kv=None,
        acceptance=None,
        batch=batches,
    )
    if not rates:
        return accepted, []
    candidates = find_candidates(accepted, [baseline.layout])
    allowed = [candidate for candidate in candidates.drafted if query.may_choose(candidate.runs)]
    return accepted, price(candidates.baselines, allowed, accepted).drafted


def _break_even(priced: Priced, query: AdviseQuery, baseline: PricedPoint) -> BreakEven | None:
    """The break-even acceptance of a candidate. At each gamma, the smallest alpha follows from the smallest
    sufficient number of tokens per iteration. The result is None if not even alpha 1 is sufficient.

    - priced: the candidate and its times with alpha 1.
    """
    enough_s = np.full(priced.batches.shape, baseline.tpot_s)
    if query.objective != "latency":
        enough_s *= priced.batches / baseline.batch
    if query.max_tpot_s is not None:
        enough_s = np.minimum(enough_s, query.max_tpot_s)
    needed = np.where(priced.fits, priced.tpot_s * priced.gained / enough_s[:, None], np.inf)
    fewest = np.maximum(needed.min(axis=0), 1.0)
    reachable = fewest <= priced.drafted + 1.0
    if not reachable.any():
        return None
    gammas = priced.drafted[reachable]
    alphas = np.atleast_1d(alpha_from_tokens_per_iteration(fewest[reachable], gammas))
    at = int(np.argmin(alphas))
    draft = priced.candidate.scenario.draft
    column = int(np.flatnonzero(reachable)[at])
    return BreakEven(
        draft=draft.name,
        draft_kv=draft.kv.label(),
        draft_tp=draft.tensor_parallel,
        gamma=int(gammas[at]),
        batch=int(priced.batches[np.argmin(needed[:, column])]),
        smallest_alpha=float(alphas[at]),
    )
