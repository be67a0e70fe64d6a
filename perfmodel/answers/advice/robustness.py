"""Margins of `advise`'s choice: their interval, and the acceptance at which the choice would change."""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.candidates import AdviseQuery
from perfmodel.answers.advice.prices import Priced, PricedPoint, best
from perfmodel.speculation import alpha_from_tokens_per_iteration, interval_of, log_error


@dataclass(frozen=True, slots=True)
class Robustness:
    """Margins of the choice, the acceptance at which it would change, and the calibration's scatter.

    alpha: the constant acceptance of the chosen chain. At smallest_alpha, or smallest_tokens_per_iteration,
    the chosen batch and gamma would only equal the best baseline. robust: the whole interval is above 1.
    """

    gain_over_baseline: float | None
    gain_over_baseline_interval: tuple[float, float] | None
    gain_over_runner_up: float | None
    alpha: float | None
    smallest_alpha: float | None
    smallest_tokens_per_iteration: float | None
    robust: bool | None


def robustness_of(
    query: AdviseQuery,
    chosen: PricedPoint,
    ranked: list[PricedPoint],
    baseline: PricedPoint | None,
    searched: list[Priced],
) -> Robustness:
    """Robustness of the first candidate in `ranked`, which is sorted by value. searched: the allowed
    candidates with a draft.
    """
    gain = None if baseline is None else chosen.times(baseline, query)
    alpha = smallest = fewest = interval = None
    if chosen.gamma and gain is not None and baseline is not None:
        fewest = max(chosen.gained / gain, 1.0)
        if (
            query.max_tpot_s is not None
        ):  # fewer tokens make each take longer, and the bound holds for them too
            fewest = max(fewest, chosen.gained * chosen.tpot_s / query.max_tpot_s)
        priced = next(x for x in searched if x.candidate is chosen.candidate)
        interval = _gain_interval(query, chosen, baseline, priced)
        alpha = float(alpha_from_tokens_per_iteration(chosen.gained, chosen.gamma))
        smallest = float(alpha_from_tokens_per_iteration(fewest, chosen.gamma))
    return Robustness(
        gain_over_baseline=gain,
        gain_over_baseline_interval=interval,
        gain_over_runner_up=chosen.times(ranked[1], query) if len(ranked) > 1 else None,
        alpha=alpha,
        smallest_alpha=smallest,
        smallest_tokens_per_iteration=fewest,
        robust=None if interval is None else interval[0] > 1,
    )


def _gain_interval(
    query: AdviseQuery, chosen: PricedPoint, baseline: PricedPoint, priced: Priced
) -> tuple[float, float] | None:
    """The gain over the best baseline if the draft is slower or faster by the point's error.

    The batch is chosen anew at both ends, because a bound on the time per token holds there too. No
    verification is faster than a baseline step. None if the calibration has no error.
    """
    s, context = chosen.candidate.scenario, float(query.context)
    error = log_error(s, np.asarray(float(chosen.batch)), np.asarray(context), np.array([chosen.gamma]))
    if error is None:
        return None
    factor = interval_of(1.0, float(error[..., 0]))[1]
    column = int(np.flatnonzero(priced.drafted == chosen.gamma)[0])
    least_s = np.asarray(s.target_pass_s(query.batches, context)) / chosen.gained
    usual_s, gains = priced.tpot_s[:, column], []
    for tpot_s in (usual_s * factor, np.maximum(usual_s / factor, np.minimum(least_s, usual_s))):
        changed = replace(
            priced,
            tpot_s=np.where(priced.fits[:, [column]], tpot_s[:, None], np.inf),
            allowed=(priced.fits[:, [column]] & (tpot_s[:, None] <= (query.max_tpot_s or np.inf))),
        )
        point = best(changed, query)
        gains.append(
            point.times(baseline, query) if point is not None else chosen.times(baseline, query) / factor
        )
    return gains[0], gains[1]
