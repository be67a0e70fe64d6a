"""The question turned round: what must hold for speculation to reach a wanted speedup."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.inflection import break_even_context
from perfmodel.answers.query import Query, resolve
from perfmodel.costs.roofline import Machine
from perfmodel.errors import refuse
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict, speedups
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Requirements:
    """What reaches `wanted` at this batch, context and gamma with all else as asked; None where nothing does.

    smallest_alpha: constant acceptance. largest_draft_to_target: cost ratio (T_D + T_select) / T_T.
    largest_kv_reread: factor on the verification's KV bytes, from 1 to gamma + 1 (where any value will do).
    smallest_context: tokens. `speedup` is what the question itself gives.
    """

    wanted: float
    gamma: int
    speedup: float
    smallest_alpha: float | None
    largest_draft_to_target: float | None
    largest_kv_reread: float | None
    smallest_context: float | None


def solve(query: Query, wanted: float = 1.0) -> Requirements:
    """Requirements at the question's gamma (the best one, where it leaves gamma open).

    Raises InputError for a wanted speedup that is not above 0 and finite, or for gamma 0, which changes nothing.
    """
    if not 0 < wanted < float("inf"):
        raise refuse("--speedup", None, "a finite number above 0", wanted)
    if query.gamma == 0:
        raise refuse("--gamma", None, "1 or more, or auto: plain decoding has speedup 1 whatever holds", 0)
    scenario = resolve(query)
    workload = Workload.of(query.batch, query.context, query.gamma or 1)
    p = predict(scenario, workload, query.max_gamma)
    gamma = int(workload.gamma) if query.gamma else max(int(p.gamma_optimal), 1)
    p = predict(scenario, replace(workload, gamma=np.asarray(gamma)), query.max_gamma)
    spare = float(p.tokens_per_iteration * p.target_s) / wanted - float(p.verify_s + p.overhead_s)
    return Requirements(
        wanted=wanted,
        gamma=gamma,
        speedup=float(p.speedup),
        smallest_alpha=_smallest_alpha(scenario, query, gamma, wanted),
        largest_draft_to_target=spare / (gamma * float(p.target_s)) if spare > 0 else None,
        largest_kv_reread=_largest_reread(scenario, query, gamma, wanted),
        smallest_context=break_even_context(scenario, query.batch, gamma, wanted),
    )


def _smallest_alpha(scenario: Scenario, query: Query, gamma: int, wanted: float) -> float | None:
    def falls_short(alpha: float) -> bool:
        return _speedup(replace(scenario, acceptance=Acceptance.from_alpha(alpha)), query, gamma) < wanted

    return None if falls_short(1.0) else _turn(falls_short, 0.0, 1.0)[1]


def _largest_reread(scenario: Scenario, query: Query, gamma: int, wanted: float) -> float | None:
    m = scenario.machine

    def reaches(factor: float) -> bool:
        machine = Machine(m.gpu, m.calibration, m.tensor_parallel, factor)
        return _speedup(replace(scenario, machine=machine), query, gamma) >= wanted

    return _turn(reaches, 1.0, gamma + 1.0)[0] if reaches(1.0) else None


def _speedup(scenario: Scenario, query: Query, gamma: int) -> float:
    return float(speedups(scenario, query.batch, query.context, np.array([gamma]))[..., 0])


def _turn(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The last value that holds and the first that does not, for a property once lost stays lost; an end twice."""
    if not holds(low):
        return low, low
    if holds(high):
        return high, high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
