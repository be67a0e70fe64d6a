"""Two levels: a small model drafts for the target with a sparse cache, whose tokens the full target then
verifies.
"""

from dataclasses import KW_ONLY, dataclass

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import CommonOptions, beyond, doubts, of_draft, parse_rate, resolve
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.readers import Lengths, Parsed, gammas, rate
from perfmodel.answers.text import ratio_text
from perfmodel.errors import InputError, refuse
from perfmodel.speculation import DEFAULT_MAX_GAMMA, Workload, predict
from perfmodel.speculation.two_levels import DEFAULT_GAMMA_1, DEFAULT_GAMMA_2, best_two_levels, memory_of_both


@question
class HierarchyQuery(CommonOptions):
    """A question about two levels. `draft_kv` and `alpha` belong to the middle level: the target with a
    sparse cache.
    """

    batch: arg.Batch
    context: arg.Context
    tp: arg.TP = argument(default=1)
    _: KW_ONLY
    draft_kv: str = argument(
        "KV method and budget of the middle (the target with a sparse cache).", "METHOD:BUDGET", group="Draft"
    )
    small: str = argument("The small model that drafts for the middle.", "NAME|KIND|PATH", group="Draft")
    small_rate: Parsed[str, str | float] = argument(
        "Probability that the middle accepts a token of the small model: 0.6, or by position 0.7/0.5.",
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
    gamma_1: Lengths = argument(
        f"Draft lengths of the small model to search; auto is 1..{DEFAULT_GAMMA_1}, or up to the last known "
        "rate.",
        "COUNTS|auto",
        read=gammas,
        shown="auto",
        default=None,
        group="Draft",
    )
    gamma_2: Lengths = argument(
        f"Draft lengths of the middle to search; auto is 1..{DEFAULT_GAMMA_2}, or up to the last known rate.",
        "COUNTS|auto",
        "--gamma -g",
        gammas,
        shown="auto",
        default=None,
        group="Draft",
    )
    alpha: arg.Alpha = argument(default=None)
    tokens_per_iteration: arg.TokensPerIteration = argument(default=None)
    acceptance: arg.AcceptanceFile = None
    draft_tp: arg.DraftTP = argument(default=None)
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)

    def check(self) -> None:
        super().check()
        if self.draft_kv.partition(":")[0] == "full":
            raise refuse("--draft-kv", None, "METHOD:BUDGET, a sparse cache for the middle", self.draft_kv)


@dataclass(frozen=True, slots=True)
class MiddleAlone:
    """The middle level without the small model, at its best gamma (0: the baseline)."""

    gamma: int
    speedup: float


@dataclass(frozen=True, repr=False)
class Hierarchy(Answer):
    """The best pair of draft lengths: gamma_1 of the small model and gamma_2 of the middle level.

    inner_rounds and drafted tokens are expected values per iteration. Times are calibrated seconds of the
    whole group; draft_s covers all inner rounds.
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
            f"{self.batch}, context {self.context}; the middle alone "
            f"{ratio_text(self.middle_alone.speedup)}"
        )


@asks(HierarchyQuery)
def hierarchy(question: HierarchyQuery) -> Hierarchy:
    """Does a second level of drafting (TriForce: a small model below the sparse self-draft) pay, and with
    which lengths?

    The answer has the lengths with the largest speedup. --alpha is P(the target accepts a token of the
    middle). Raises InputError.
    """
    ones, twos = _lengths(question.gamma_1, "--gamma-1"), _lengths(question.gamma_2, "--gamma-2")
    query = question.query(draft="self", gamma=_measured_at(question, twos))
    batch, context = query.batch, query.context
    rate = parse_rate(question.small_rate, "--small-rate")
    given = {"alpha": None, "tokens_per_iteration": None, "acceptance": None}
    small = resolve(question.query(draft=question.small, draft_kv=question.small_kv, **given), rate)
    sparse = resolve(query)
    found = best_two_levels(small, sparse, batch, context, ones, twos)
    alone = predict(sparse, Workload.of(batch, context), query.max_gamma)
    drafted = found.gamma_1 + found.gamma_2
    room = memory_of_both(small, sparse, batch, context, drafted, query.memory_fraction).single()
    notes = (
        *doubts(query, sparse, batch, context, drafted, room),
        *beyond(small, context, drafted),
        *of_draft(small, context),
    )
    return Hierarchy(
        batch=batch,
        context=context,
        gamma_1=found.gamma_1,
        gamma_2=found.gamma_2,
        inner_rounds=found.rounds,
        drafted=found.drafted,
        tokens_per_iteration=found.tokens_per_iteration,
        draft_s=float(found.draft_s),
        verify_s=float(found.verify_s),
        overhead_s=float(found.overhead_s),
        ar_tpot_s=float(found.target_s),
        tpot_s=float(found.iteration_s) / found.tokens_per_iteration,
        speedup=float(found.speedup),
        middle_alone=MiddleAlone(int(alone.gamma_optimal), float(alone.speedup_at_gamma_optimal)),
        calibration=sparse.machine.calibration.name,
        fits=room.fits,
        max_batch=room.max_batch,
        warnings=tuple(dict.fromkeys(notes)),
    )


def _lengths(given: object, flag: str) -> tuple[int, ...] | None:
    """The draft lengths; None for ``auto``."""
    if not isinstance(given, tuple) or given == (None,):
        return None
    if not all(isinstance(length, int) and length >= 1 for length in given):
        raise refuse(flag, None, "whole numbers from 1, or auto", ", ".join(map(str, given)))
    return given


def _measured_at(question: HierarchyQuery, twos: tuple[int, ...] | None) -> int | None:
    """The one gamma to which the given tokens per iteration belong."""
    if question.tokens_per_iteration is None or twos is None:
        return None
    if len(twos) > 1:
        raise InputError(
            "--tokens-per-iteration: needs one --gamma-2 N, the draft length at which it was measured"
        )
    return twos[0]
