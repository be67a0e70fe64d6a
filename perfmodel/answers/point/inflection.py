"""Finds three context lengths of a question (`perfmodel.speculation.lengths`): memory-bound, break-even
and inflection.
"""

import math
from dataclasses import dataclass, replace

from perfmodel.answers import readers
from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import (
    NO_INTERVAL,
    Options,
    arguments as arg,
    doubts,
    length_of,
    resolve,
    with_draft,
)
from perfmodel.answers.text import tokens
from perfmodel.errors import InputError
from perfmodel.speculation import DEFAULT_BATCH_RANGE, ContextLengths, context_lengths, memory_of

DEFAULT_CONTEXT = 32768
"""The context at which the best gamma is searched if the question states no context."""


@question
class InflectionQuery(Options):
    """A question about context lengths. The argument `context` only selects the acceptance and, without a
    gamma, the best draft length.
    """

    batch: arg.Batch
    gamma: readers.Length = argument(
        f"Number of drafted tokens per iteration; auto is the best number above 0 at --context (by default "
        f"{DEFAULT_CONTEXT}).",
        "N|auto",
        "-g --num-speculative-tokens --speculative-num-steps",
        readers.gamma,
        many=readers.gammas,
        shown="auto",
        default=None,
    )
    context: readers.MaybeWhole = argument(
        "Context at which the acceptance is looked up; not needed with --alpha.",
        arg.TOKENS,
        "--context-length -c",
        default=None,
    )
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    batch_range: arg.BatchRange = argument(default=DEFAULT_BATCH_RANGE)

    def check(self) -> None:
        super().check()
        if self.context is None and self.alpha is None and self.tokens_per_iteration is None:
            raise InputError(
                "--context: must be given, because the acceptance depends on it; or give --alpha"
            )


@dataclass(frozen=True, repr=False)
class Inflection(Answer):
    """The three context lengths at one batch and gamma, for the calibration in use.

    - ideal: the same lengths for the ideal calibration.

    A length is None if no context has the property.
    """

    batch: float
    gamma: int
    draft: str
    draft_kv: str
    calibration: str
    memory_bound_context: float | None
    break_even_context: float | None
    inflection_context: float | None
    ideal: ContextLengths
    warnings: tuple[str, ...]

    def headline(self) -> str:
        return (
            f"memory-bound from {tokens(self.memory_bound_context)}, breaks even at "
            f"{tokens(self.break_even_context)}, inflection at {tokens(self.inflection_context)}; batch "
            f"{self.batch}, gamma {self.gamma}, calibration {self.calibration}"
        )


@asks(InflectionQuery)
def inflection(question: InflectionQuery) -> Inflection:
    """Find the memory-bound, break-even and inflection context lengths.

    Above `memory_bound_context`, a step spends more time on loading than on computing. Above
    `break_even_context`, speculation is faster than the baseline. Above `inflection_context`, a larger batch
    does not reduce the speedup. The answer gives all three lengths, both for the calibration in use and for
    the ideal calibration. Raises InputError for wrong input.
    """
    query = with_draft(
        question.query(context=DEFAULT_CONTEXT if question.context is None else question.context)
    )
    scenario = resolve(query)
    ideal = resolve(replace(query, engine=None, attention_backend=None, calibration="ideal"))
    batch = float(query.batch)
    gamma = length_of(query, scenario, 1)
    here, at_best = (context_lengths(s, batch, gamma, query.batch_range) for s in (scenario, ideal))
    lengths = (here.memory_bound_context, here.break_even_context, here.inflection_context)
    longest = math.ceil(max(length or 1.0 for length in lengths))
    alone = memory_of(scenario, batch, 1.0, gamma, query.memory_fraction).single()
    return Inflection(
        query.batch,
        gamma,
        scenario.draft.name,
        scenario.draft.kv.label(),
        scenario.machine.calibration.name,
        *lengths,
        at_best,
        doubts(question, scenario, batch, longest, gamma, alone, NO_INTERVAL),
    )
