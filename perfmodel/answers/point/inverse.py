"""The inverse question: the conditions under which speculation reaches a target speedup."""

import math
from dataclasses import KW_ONLY, dataclass, replace

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import POSITIVE, argument, asks, question
from perfmodel.answers.point.break_even import easiest_length, smallest_alpha, speedup_at, turn
from perfmodel.answers.question import UNUSED, Query, beyond, doubts, length_of, resolve, with_draft
from perfmodel.answers.readers import Real
from perfmodel.answers.text import NONE, ratio_text, tokens
from perfmodel.errors import refuse
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import Scenario, Workload, break_even_context, predict


@question
class InverseQuery(Query):
    """A question, and the speedup to reach."""

    _: KW_ONLY
    speedup: Real = argument("The speedup to reach; 1 is break even.", "X", limits=POSITIVE, default=1.0)

    def check(self) -> None:
        super().check()
        if self.gamma == 0:
            raise refuse("--gamma", None, "1 or more, or auto: the speedup of the baseline is always 1", 0)


@dataclass(frozen=True, repr=False, kw_only=True)
class Inverse(Answer):
    """The conditions for `target_speedup` at this batch, context and gamma, each with all other inputs as
    given. A field is None if no value is sufficient.

    smallest_alpha: constant acceptance. largest_draft_to_target: cost ratio (T_D + T_select) / T_T.
    largest_kv_reread: factor on the KV bytes of verification, from 1 to gamma + 1 (the end if every value is
    sufficient). smallest_context: tokens. speedup: that of the question itself. Without a known acceptance
    only smallest_alpha is given, with a warning, at the draft length that needs the least.
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
        alpha = NONE if self.smallest_alpha is None else f"{self.smallest_alpha:.3f}"
        if self.speedup is None:
            return (
                f"{ratio_text(self.target_speedup)} takes alpha {alpha} of {self.draft} at gamma {self.gamma}"
            )
        return (
            f"{ratio_text(self.target_speedup)} takes alpha {alpha} or context "
            f"{tokens(self.smallest_context)}; now {ratio_text(self.speedup)} at gamma {self.gamma}"
        )


@asks(InverseQuery)
def inverse(query: InverseQuery) -> Inverse:
    """Conditions for a target speedup: each one alone, with everything else as given.

    Smallest acceptance, largest draft cost, largest KV re-read factor of verification and smallest context,
    at the given gamma, or else at the best one. Raises InputError.
    """
    unknown: tuple[str, ...] = ()
    try:
        scenario = resolve(query)
    except UnknownAcceptance as error:
        scenario, unknown = resolve(with_draft(query), UNUSED), (error.why,)
    target, batch, context = query.speedup, query.batch, query.context
    if unknown:
        gamma, found = (
            int(query.gamma or easiest_length(scenario, batch, context, query.max_gamma, target)),
            {},
        )
    else:
        gamma = length_of(query, scenario, 1)
        found = _reaching(scenario, batch, context, gamma, target)
    reached = math.ceil(found.get("smallest_context") or 0)
    notes = (*doubts(query, scenario, batch, context, gamma), *beyond(scenario, reached, gamma))
    return Inverse(
        batch=batch,
        context=context,
        target_speedup=target,
        gamma=gamma,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        smallest_alpha=smallest_alpha(scenario, batch, context, gamma, target),
        **found,
        warnings=tuple(dict.fromkeys((*unknown, *notes))),
    )


def _reaching(
    scenario: Scenario, batch: float, context: float, gamma: int, target: float
) -> dict[str, float | None]:
    """For a known acceptance: the speedup, and the other changes that reach the target."""
    p = predict(scenario, Workload.of(batch, context, gamma))
    spare = float(p.tokens_per_iteration * p.target_s) / target - float(p.verify_s + p.overhead_s)

    def reaches(factor: float) -> bool:
        rereading = replace(scenario, machine=replace(scenario.machine, kv_reread=factor))
        return speedup_at(rereading, batch, context, gamma) >= target

    return {
        "speedup": float(p.speedup),
        "largest_draft_to_target": spare / (gamma * float(p.target_s)) if spare > 0 else None,
        "largest_kv_reread": turn(reaches, 1.0, gamma + 1.0)[0] if reaches(1.0) else None,
        "smallest_context": break_even_context(scenario, batch, gamma, target),
    }
