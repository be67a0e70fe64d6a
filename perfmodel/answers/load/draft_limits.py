"""Finds the limits of one draft length: the saturation rate, and the load from which it is not faster than
the baseline.
"""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.draft_lengths import runs
from perfmodel.queueing.closed_form import mean_tpot_s
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.policies.auto import Auto
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes

LOADS_TRIED = 24
"""Number of loads in the search for the load at which speculation stops paying off."""


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """The limits of one draft length, or of a policy that changes the draft length.

    - saturation_rate: requests per second at which the server is saturated.
    - stops_paying_at: the load from which drafting is not faster than the baseline; None if drafting is
      faster at all loads.
    - table: for a policy with a table, its rows (first batch, last batch, tokens).
    - over_best_fixed: for a policy, the speedup over the best fixed draft length at each load. This is the
      lowest mean TPOT of a fixed length divided by the mean TPOT of the policy.
    """

    gamma: int | str
    saturation_rate: float | None
    stops_paying_at: float | None
    table: tuple[tuple[int, int, int], ...] | None = None
    over_best_fixed: tuple[float, ...] | None = None


def draft_limits(replica: Replica, choice: Choice) -> DraftLimits:
    """The limits of a draft length or policy on one server."""
    most = capacity(choice.steps, replica.lengths, replica.limits).requests_per_s
    table = None if choice.table is None else runs(np.asarray(choice.table))
    gains = None
    if isinstance(choice.gamma, str) and choice.steps.seats:
        gains = _over_best_fixed(replica, choice.steps)
    return DraftLimits(choice.gamma, most, _stops_paying(replica, choice.steps), table, gains)


def _over_best_fixed(replica: Replica, steps: StepTimes) -> tuple[float, ...]:
    """At each load, the lowest mean TPOT of a fixed length (or the baseline), divided by the mean TPOT of the
    policy.

    - steps: the passes of the policy.
    """
    single = [replica.passes[0], *(choice.steps for choice in Auto().choices(replica))]
    tpot = [mean_tpot_s(t, replica.load, replica.limits) for t in (*single, steps) if t.seats]
    if tpot[:-1]:
        return tuple((np.min(tpot[:-1], 0) / tpot[-1]).tolist())
    return ()


def _stops_paying(replica: Replica, steps: StepTimes) -> float | None:
    """The lowest load from which the mean TPOT is not below that of the baseline. The result is None if the
    mean TPOT is lower at all loads.
    """
    baseline = replica.passes[0]
    if not (steps.seats and baseline.seats):
        return None
    if replica.load.rate is not None:
        end = min(capacity(t, replica.lengths, replica.limits).requests_per_s for t in (baseline, steps))
        loads = np.linspace(end / LOADS_TRIED, end, LOADS_TRIED, endpoint=False)
        load = replace(replica.load, rate=loads)
    else:
        loads = np.unique(np.round(np.geomspace(1, min(baseline.seats, steps.seats), LOADS_TRIED)))
        load = replace(replica.load, clients=loads)
    slower = [mean_tpot_s(t, load, replica.limits) for t in (baseline, steps)]
    pays = np.flatnonzero(slower[1] < slower[0])
    if not pays.size:
        return float(loads[0])
    if pays[-1] == loads.size - 1:
        return None
    return float(loads[pays[-1] + 1])
