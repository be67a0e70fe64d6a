"""Chooses among several kinds of device, and tries FP8 weights on each kind."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.at_batches import at_batches
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.smaller_formats import SMALLER, may_be_smaller
from perfmodel.answers.advice.under_load import under_load
from perfmodel.answers.text import Note
from perfmodel.errors import InputError


def of_one_kind(question: AdviseQuery) -> Advice:
    """The answer of `advise` for one kind of device."""
    return under_load(question) if question.has_load else at_batches(question)


def cost_of(answer: Advice) -> float:
    """A sort key for the answers for several kinds of device. The best answer has the smallest key. If the
    objective is latency, the key is the TPOT. Otherwise, the key is the price per token or, without prices,
    the inverse of the throughput per device. For an answer without a choice, the key is that of its nearest
    servers. Without such servers, the key is infinite.
    """
    p = answer.chosen or (None if answer.nearest is None else answer.nearest.pick)
    if p is None:
        return math.inf
    if answer.objective.name == "latency":
        return p.tpot_s
    if p.cost_per_million_tokens is not None:
        return p.cost_per_million_tokens
    return 1.0 / p.throughput_tokens_per_s_per_device


def nearest_kind(answers: Sequence[Advice]) -> Advice:
    """The answer if no kind of device is feasible: the best answer by `cost_of`, with the reasons for the
    other kinds as warnings.
    """
    best = min(answers, key=cost_of)
    others = (Note(f"on {a.query.hardware}: {a.reason}") for a in answers if a is not best)
    return replace(best, warnings=(*best.warnings, *others))


def with_smaller_weights_on_all(kinds: Sequence[AdviseQuery], best: Advice) -> tuple[Alternative, ...]:
    """The alternative with FP8 weights that is best over all kinds of device. The result is empty if this
    alternative is not clearly better than `best`.
    """
    answers = []
    for question in kinds:
        if may_be_smaller(question):
            with suppress(InputError):
                answers.append(of_one_kind(replace(question, weights=SMALLER)))
    feasible = [a for a in answers if a.chosen is not None]
    if not feasible:
        return ()
    smaller = min(feasible, key=cost_of)
    gain = cost_of(best) / cost_of(smaller)
    p = smaller.chosen
    if gain <= 1.0 + ALIKE or p is None:
        return ()
    draft = f"{p.draft}, gamma {p.gamma}" if p.gamma else "no draft"
    text = f"With --weights {SMALLER} {gain:.2f} times as good: {p.layout} on {p.hardware}, {draft}"
    word = "" if smaller.calibration is None else smaller.calibration.stack.partition(" ")[0]
    line = None if smaller.serve is None else smaller.serve.lines.get(word)
    return (Alternative(f"{text}, batch {p.batch}", p.replicas, line),)
