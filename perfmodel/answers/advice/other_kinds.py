"""Chooses among several kinds of device, names the machine with the most tokens/s in all, and tries FP8
weights on each kind.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, batch_text
from perfmodel.answers.advice.at_batches import at_batches
from perfmodel.answers.advice.over_kinds import Measure, OverKind, over_kind
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.smaller_formats import SMALLER, may_be_smaller
from perfmodel.answers.advice.under_load import Found
from perfmodel.answers.text import Note
from perfmodel.errors import InputError


@dataclass(frozen=True, slots=True)
class OfKind:
    """The choice on one kind of device. The rest of its answer is only made if it is needed.

    - pick: the choice; None if nothing is feasible.
    - throughput_interval: under a load, the 90 % interval of the tokens/s of one server of the choice; None
      if it is not known.
    - line: returns the command line of a server of the choice, or None.
    - answer: returns the whole answer.
    """

    question: AdviseQuery
    pick: Pick | None
    line: Callable[[], str | None]
    answer: Callable[[], Advice]
    throughput_interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, question: AdviseQuery) -> "OfKind":
        """The choice of `advise` for one kind of device. Raises InputError for wrong input."""
        if question.has_load:
            found = Found.of(question)
            return cls(question, found.pick, lambda: found.line, found.answer, found.throughput_interval)
        answer = at_batches(question)
        return cls(question, answer.chosen, lambda: _line(answer), lambda: answer)

    @property
    def cost(self) -> float:
        """The `cost` of the choice; infinite without one."""
        return math.inf if self.pick is None else cost(self.pick, self.question.objective)

    @property
    def measure(self) -> Measure:
        """The quantity that ranks this kind. Raises AssertionError without a choice."""
        assert self.pick is not None
        name = self.question.objective
        if name != "latency":
            name = "throughput" if self.pick.cost_per_million_tokens is None else "cost"
        usual, ends = self.pick.tpot_s, self.pick.tpot_interval
        if name != "latency" and self.question.has_load:
            rates = self.throughput_interval
            usual = 1.0 / self.pick.throughput_tokens_per_s
            ends = None if rates is None else (1.0 / rates[1], 1.0 / rates[0])
        factors = None if ends is None else (ends[0] / usual, ends[1] / usual)
        return Measure(name, self.cost, factors)

    @property
    def alternative(self) -> Alternative:
        """The choice on this kind, with its command line. Raises AssertionError without a choice."""
        p = self.pick
        assert p is not None
        batch = f"{_draft(p)}, {batch_text(p.batch, p.replicas)}"
        return Alternative(f"On {p.hardware} instead: {p.layout}, {batch}", p.replicas, self.line())


def in_order(found: Iterable[OfKind]) -> list[OfKind]:
    """The kinds with a choice, the best first. If several kinds serve the same load equally well, the one
    with the shortest time per token is the best.
    """
    feasible = sorted((each for each in found if each.pick is not None), key=lambda each: each.cost)
    if feasible and feasible[0].question.has_load:
        alike = [each for each in feasible if _alike(feasible[0], each)]
        best = min(alike, key=lambda each: each.pick.tpot_s if each.pick is not None else math.inf)
        feasible = [best, *(each for each in feasible if each is not best)]
    return feasible


def _alike(best: OfKind, other: OfKind) -> bool:
    """Whether two kinds serve a load equally well, by the cost that ranks them."""
    load = best.question.has_load and best.question.objective != "latency"
    return load and abs(math.log(other.cost / best.cost)) <= ALIKE


def over_kinds(feasible: Sequence[OfKind]) -> tuple[OverKind, ...]:
    """The choice compared with each other kind.

    - feasible: the kinds of `in_order`.
    """
    best = feasible[0]
    return tuple(
        over_kind(best.pick, best.measure, each.pick, each.measure, _alike(best, each))
        for each in feasible[1:]
        if best.pick is not None and each.pick is not None
    )


def cost(p: Pick, objective: str) -> float:
    """A sort key for the choices on several kinds of device. The best choice has the smallest key. If the
    objective is latency, the key is the TPOT. Otherwise, the key is the price per token or, without prices,
    the inverse of the throughput per device.
    """
    if objective == "latency":
        return p.tpot_s
    if p.cost_per_million_tokens is not None:
        return p.cost_per_million_tokens
    return 1.0 / p.throughput_tokens_per_s_per_device


def _cost_of(answer: Advice) -> float:
    """The `cost` of the nearest servers of an answer without a choice; infinite without such servers."""
    return math.inf if answer.nearest is None else cost(answer.nearest.pick, answer.objective.name)


def _line(answer: Advice) -> str | None:
    """The command line of a server of the choice, in the engine of the answer."""
    word = "" if answer.calibration is None else answer.calibration.stack.partition(" ")[0]
    return None if answer.serve is None else answer.serve.lines.get(word)


def nearest_kind(answers: Sequence[Advice]) -> Advice:
    """The answer if no kind of device is feasible: the one with the best nearest servers, with the reasons
    for the other kinds as warnings.
    """
    best = min(answers, key=_cost_of)
    others = left_out(a for a in answers if a is not best)
    return replace(best, warnings=(*best.warnings, *others))


def left_out(answers: Iterable[Advice]) -> Iterator[Note]:
    """The reason why each of these kinds of device is not chosen, from its answer without a choice."""
    return (Note(f"on {answer.query.hardware}: {answer.reason}") for answer in answers)


def with_smaller_weights_on_all(kinds: Sequence[AdviseQuery], best: OfKind) -> tuple[Alternative, ...]:
    """The alternative with FP8 weights that is best over all kinds of device. The result is empty if this
    alternative is not clearly better than `best`.
    """
    found = []
    for question in kinds:
        if may_be_smaller(question):
            with suppress(InputError):
                found.append(OfKind.of(replace(question, weights=SMALLER)))
    smaller = min(found, key=lambda each: each.cost, default=None)
    if smaller is None or (p := smaller.pick) is None:
        return ()
    gain = best.cost / smaller.cost
    if gain <= 1.0 + ALIKE:
        return ()
    text = f"With --weights {SMALLER} {gain:.2f} times as good: {p.layout} on {p.hardware}, {_draft(p)}"
    return (Alternative(f"{text}, batch {p.batch}", p.replicas, smaller.line()),)


def most_in_all(feasible: Sequence[OfKind]) -> tuple[Alternative, ...]:
    """The machine with the most tokens/s in all, if it is not the choice. The result is empty if the ranking
    is not by tokens/s per device, or if the question does not state the number of devices of each kind.

    - feasible: the choices of all kinds with a choice, the best kind first.
    """
    best = feasible[0]
    stated = all(each.question.gpus is not None for each in feasible)
    per_device = best.question.objective == "throughput" and best.question.dollars is None
    if not (per_device and stated):
        return ()
    most = max(feasible, key=_in_all)
    if most.pick is None or _in_all(most) <= (1.0 + ALIKE) * _in_all(best):
        return ()
    p = most.pick
    text = (
        f"{p.gpus} x {p.hardware} ({p.layout}, {_draft(p)}): {_in_all(most):,.0f} tokens/s in all instead of "
        f"{_in_all(best):,.0f}; the ranking is by tokens/s per GPU"
    )
    return (Alternative(text, p.replicas, most.line()),)


def _in_all(found: OfKind) -> float:
    """Tokens/s of all servers of a choice; 0 without one."""
    return 0.0 if found.pick is None else found.pick.all_servers_tokens_per_s


def _draft(pick: Pick) -> str:
    """The draft with its length in words."""
    return f"{pick.draft}, gamma {pick.gamma}" if pick.gamma else "no draft"
