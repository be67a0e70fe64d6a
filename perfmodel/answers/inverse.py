"""The question turned round: what must hold for speculation to reach a target speedup."""

import math
from dataclasses import dataclass, replace

from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import POSITIVE, argument, asks, question
from perfmodel.answers.break_even import Point, easiest_length, smallest_alpha, turn
from perfmodel.answers.query import UNUSED, Query, length_of, resolve, with_draft
from perfmodel.answers.readers import Number, number, value
from perfmodel.answers.text import NONE, times, tokens
from perfmodel.answers.verdict import beyond, once
from perfmodel.errors import refuse
from perfmodel.specs.acceptance_rows import UnknownAcceptance
from perfmodel.speculation.chain import predict
from perfmodel.speculation.lengths import break_even_context
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload


@question
class InverseQuery(Query):
    """A question and the speedup that is to be reached."""

    speedup: Number = argument("The speedup to reach; 1 is break even.", "X", read=number, limits=POSITIVE, default=1.0)

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        if self.gamma == 0:
            raise refuse("--gamma", None, "1 or more, or auto: the baseline has speedup 1 whatever holds", 0)


@dataclass(frozen=True, repr=False, kw_only=True)
class Inverse(Answer):
    """What reaches `target_speedup` at this batch, context and gamma with all else as asked; None where nothing does.

    smallest_alpha: constant acceptance. largest_draft_to_target: cost ratio (T_D + T_select) / T_T.
    largest_kv_reread: factor on the verification's KV bytes, from 1 to gamma + 1 (where any value will do).
    smallest_context: tokens. `speedup` is what the question itself gives. Where no acceptance is known only
    smallest_alpha is told, at the draft length that needs the least, and a warning says so.
    """

    batch: float
    context: float
    target_speedup: float
    gamma: int
    draft: str
    draft_kv: str
    speedup: float | None = None
    smallest_alpha: float | None
    largest_draft_to_target: float | None = None
    largest_kv_reread: float | None = None
    smallest_context: float | None = None
    warnings: tuple[str, ...]

    def headline(self) -> str:
        """See `Answer.headline`."""
        alpha = NONE if self.smallest_alpha is None else f"{self.smallest_alpha:.3f}"
        if self.speedup is None:
            return f"{times(self.target_speedup)} takes alpha {alpha} of {self.draft} at gamma {self.gamma}"
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
    try:
        scenario = resolve(query)
    except UnknownAcceptance as unknown:
        return _of_alpha(query, unknown.why)
    target, gamma = float(query.speedup), length_of(query, scenario, 1)
    p = predict(scenario, Workload.of(query.batch, query.context, gamma))
    spare = float(p.tokens_per_iteration * p.target_s) / target - float(p.verify_s + p.overhead_s)
    at = Point(float(query.batch), float(query.context), gamma)
    needed = break_even_context(scenario, at.batch, gamma, target)
    return Inverse(
        batch=value(query.batch),
        context=value(query.context),
        target_speedup=target,
        gamma=gamma,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        speedup=float(p.speedup),
        smallest_alpha=smallest_alpha(scenario, at, target),
        largest_draft_to_target=spare / (gamma * float(p.target_s)) if spare > 0 else None,
        largest_kv_reread=_largest_reread(scenario, at, target),
        smallest_context=needed,
        warnings=once(
            note for length in (at.context, math.ceil(needed or 0)) for note in beyond(scenario, length, gamma)
        ),
    )


def _of_alpha(query: InverseQuery, why: str) -> Inverse:
    """Where no acceptance is known: from which one on."""
    scenario, target = resolve(with_draft(query), UNUSED), float(query.speedup)
    batch, context = value(query.batch), value(query.context)
    gamma = int(query.gamma or easiest_length(scenario, batch, context, int(query.max_gamma), target))
    return Inverse(
        batch=batch,
        context=context,
        target_speedup=target,
        gamma=gamma,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        smallest_alpha=smallest_alpha(scenario, Point(batch, context, gamma), target),
        warnings=(why, *beyond(scenario, context, gamma)),
    )


def _largest_reread(scenario: Scenario, at: Point, target: float) -> float | None:
    def reaches(factor: float) -> bool:
        return at.speedup(replace(scenario, machine=replace(scenario.machine, kv_reread=factor))) >= target

    return turn(reaches, 1.0, at.gamma + 1.0)[0] if reaches(1.0) else None
