"""The question turned round: what must hold for speculation to reach a target speedup."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import POSITIVE, Argument, Number, asks, number, value
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.text import NONE, times, tokens
from perfmodel.answers.verdict import beyond, once
from perfmodel.errors import refuse
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict, speedups
from perfmodel.speculation.lengths import break_even_context
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

HALVINGS = 50


@dataclass(frozen=True)
class InverseQuery(Query):
    """A question and the speedup that is to be reached."""

    speedup: Annotated[
        Number, Argument("The speedup to reach; 1 is break even.", "X", read=number, limits=POSITIVE)
    ] = field(default=1.0, kw_only=True)

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        if self.gamma == 0:
            raise refuse("--gamma", None, "1 or more, or auto: the baseline has speedup 1 whatever holds", 0)


@dataclass(frozen=True, repr=False)
class Inverse(Answer):
    """What reaches `target_speedup` at this batch, context and gamma with all else as asked; None where nothing does.

    smallest_alpha: constant acceptance. largest_draft_to_target: cost ratio (T_D + T_select) / T_T.
    largest_kv_reread: factor on the verification's KV bytes, from 1 to gamma + 1 (where any value will do).
    smallest_context: tokens. `speedup` is what the question itself gives.
    """

    batch: float
    context: float
    target_speedup: float
    gamma: int
    draft_kv: str
    speedup: float
    smallest_alpha: float | None
    largest_draft_to_target: float | None
    largest_kv_reread: float | None
    smallest_context: float | None
    warnings: tuple[str, ...]

    def headline(self) -> str:
        """See `Answer.headline`."""
        alpha = NONE if self.smallest_alpha is None else f"{self.smallest_alpha:.3f}"
        return (
            f"{times(self.target_speedup)} takes alpha {alpha} or context {tokens(self.smallest_context)}; "
            f"now {times(self.speedup)} at gamma {self.gamma}"
        )


@asks(InverseQuery)
def inverse(query: InverseQuery) -> Inverse:
    """What must hold for speculation to reach a target speedup, each alone with all else as asked.

    Smallest acceptance, largest draft cost, largest KV re-read factor of verification, smallest context; at the
    question's gamma, or the best one where it leaves gamma open. Raises InputError.
    """
    scenario, target, max_gamma = resolve(query), float(query.speedup), int(query.max_gamma)
    workload = Workload.of(query.batch, query.context, query.gamma or 1)
    p = predict(scenario, workload, max_gamma)
    gamma = int(workload.gamma) if query.gamma else max(int(p.gamma_optimal), 1)
    p = predict(scenario, replace(workload, gamma=np.asarray(gamma)), max_gamma)
    spare = float(p.tokens_per_iteration * p.target_s) / target - float(p.verify_s + p.overhead_s)
    at = _Point(float(workload.batch), float(workload.context), gamma)
    needed = break_even_context(scenario, at.batch, gamma, target)
    return Inverse(
        batch=value(query.batch),
        context=value(query.context),
        target_speedup=target,
        gamma=gamma,
        draft_kv=scenario.draft.kv.label(),
        speedup=float(p.speedup),
        smallest_alpha=_smallest_alpha(scenario, at, target),
        largest_draft_to_target=spare / (gamma * float(p.target_s)) if spare > 0 else None,
        largest_kv_reread=_largest_reread(scenario, at, target),
        smallest_context=needed,
        warnings=once(
            note for length in (at.context, math.ceil(needed or 0)) for note in beyond(scenario, length, gamma)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Point:
    batch: float
    context: float
    gamma: int

    def speedup(self, scenario: Scenario) -> float:
        return float(speedups(scenario, self.batch, self.context, np.array([self.gamma]))[..., 0])


def _smallest_alpha(scenario: Scenario, at: _Point, target: float) -> float | None:
    def falls_short(alpha: float) -> bool:
        return at.speedup(replace(scenario, acceptance=Acceptance.from_alpha(alpha))) < target

    return None if falls_short(1.0) else _turn(falls_short, 0.0, 1.0)[1]


def _largest_reread(scenario: Scenario, at: _Point, target: float) -> float | None:
    def reaches(factor: float) -> bool:
        return at.speedup(replace(scenario, machine=replace(scenario.machine, kv_reread=factor))) >= target

    return _turn(reaches, 1.0, at.gamma + 1.0)[0] if reaches(1.0) else None


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
