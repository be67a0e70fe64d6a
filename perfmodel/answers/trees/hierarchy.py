"""Two levels of drafts. A small model drafts for the *middle* level, which is the target with a sparse cache.
The tokens that the middle level accepts or produces are the draft for the target with its full cache.
"""

from dataclasses import KW_ONLY, dataclass

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import (
    NO_INTERVAL,
    CommonOptions,
    arguments as arg,
    doubts,
    of_draft,
    parse_rate,
    resolve,
)
from perfmodel.answers.readers import MaybeWholes, Parsed, rate
from perfmodel.answers.text import ratio_text
from perfmodel.errors import refuse
from perfmodel.speculation import DEFAULT_MAX_GAMMA, Workload, predict
from perfmodel.speculation.two_levels import DEFAULT_GAMMA_1, DEFAULT_GAMMA_2, best_two_levels, memory_of_both


@question
class HierarchyQuery(CommonOptions):
    """A question about two levels of drafting.

    - draft_kv, alpha: the KV method and the acceptance of the middle level, which is the target with a sparse
      cache.
    """

    batch: arg.Batch
    context: arg.Context
    tp: arg.TP = argument(default=1)
    _: KW_ONLY
    draft_kv: str = argument(
        "KV method and budget of the middle level (the target with a sparse cache).",
        "METHOD:BUDGET",
        group="Draft",
    )
    small: str = argument("Small model that drafts for the middle level.", "NAME|KIND|PATH", group="Draft")
    small_rate: Parsed[str, str | float] = argument(
        "Probability that the middle level accepts a token of the small model: one value (0.6), or values "
        "by position (0.7/0.5).",
        "RATE",
        read=rate,
        group="Acceptance",
    )
    small_kv: str = argument(
        "KV method and budget of the small model.",
        "METHOD[:BUDGET]",
        default="streamingllm:256",
        group="Draft",
    )
    gamma_1: MaybeWholes = argument(
        "Draft lengths of the small model to include in the search.",
        arg.COUNTS,
        shown=f"1..{DEFAULT_GAMMA_1}, or up to the last known rate",
        default=None,
        group="Draft",
    )
    gamma_2: MaybeWholes = argument(
        "Draft lengths of the middle level to include in the search.",
        arg.COUNTS,
        shown=f"1..{DEFAULT_GAMMA_2}, or up to the last known rate",
        default=None,
        group="Draft",
    )
    alpha: arg.Alpha = argument(default=None)

    def check(self) -> None:
        super().check()
        if self.draft_kv.partition(":")[0] == "full":
            raise refuse("--draft-kv", None, "METHOD:BUDGET, a sparse cache for the middle", self.draft_kv)


@dataclass(frozen=True, slots=True)
class MiddleAlone:
    """The speedup of the middle level without the small model, at its best gamma. gamma 0 means the
    baseline.
    """

    gamma: int
    speedup: float


@dataclass(frozen=True, repr=False)
class Hierarchy(Answer):
    """The answer of `hierarchy` at the best draft lengths.

    - gamma_1: draft length of the small model.
    - gamma_2: draft length of the middle level.
    - inner_rounds: mean number of verifications by the middle level in one iteration.
    - drafted: mean number of tokens that the middle level drafts for the target in one iteration.
    - draft_s: time of all inner rounds of an iteration.

    All times are in seconds and for one server.
    """

    batch: float
    context: float
    gamma_1: int
    gamma_2: int
    inner_rounds: float
    drafted: float
    tokens_per_iteration: float
    draft_s: float
    verify_s: float
    overhead_s: float
    ar_tpot_s: float
    tpot_s: float
    speedup: float
    middle_alone: MiddleAlone
    calibration: str
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]

    def headline(self) -> str:
        return (
            f"{ratio_text(self.speedup)} at gamma 1 {self.gamma_1} and gamma 2 {self.gamma_2}, batch "
            f"{self.batch:g}; the middle alone {ratio_text(self.middle_alone.speedup)}"
        )


@asks(HierarchyQuery)
def hierarchy(question: HierarchyQuery) -> Hierarchy:
    """Does a second level of drafts pay off, and with which draft lengths? With two levels, a small model
    drafts for the sparse self-draft, as in TriForce.

    The answer gives the draft lengths with the largest speedup. The middle level is the target with a sparse
    cache. alpha is the probability that the target with its full cache accepts a token of the middle level.
    There are no measurements of a serving engine with two draft levels. Raises InputError for wrong input.
    """
    query = question.query(draft="self", gamma=None)
    batch = query.batch
    context = query.context
    accepted = parse_rate(question.small_rate, "--small-rate")
    drafts = question.query(draft=question.small, draft_kv=question.small_kv, gamma=None, alpha=None)
    small = resolve(drafts, accepted)
    middle = resolve(query)
    best = best_two_levels(small, middle, batch, context, question.gamma_1, question.gamma_2)
    alone = predict(middle, Workload.of(batch, context), DEFAULT_MAX_GAMMA)
    longest = best.gamma_1 + best.gamma_2
    room = memory_of_both(small, middle, batch, context, longest, query.memory_fraction)
    notes = (*doubts(query, middle, batch, context, longest, room, NO_INTERVAL), *of_draft(small, context))
    return Hierarchy(
        batch=batch,
        context=context,
        gamma_1=best.gamma_1,
        gamma_2=best.gamma_2,
        inner_rounds=best.rounds,
        drafted=best.drafted,
        tokens_per_iteration=best.tokens_per_iteration,
        draft_s=best.draft_s,
        verify_s=best.verify_s,
        overhead_s=best.overhead_s,
        ar_tpot_s=best.target_s,
        tpot_s=best.tpot_s,
        speedup=best.speedup,
        middle_alone=MiddleAlone(int(alone.gamma_optimal), float(alone.speedup_at_gamma_optimal)),
        calibration=middle.machine.calibration.name,
        fits=room.fits,
        max_batch=room.max_batch,
        warnings=tuple(dict.fromkeys(notes)),
    )
