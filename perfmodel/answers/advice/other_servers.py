"""Servers beyond those that a question searches: the fewest GPUs that serve its load, and FP8 weights."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.load_order import order
from perfmodel.answers.advice.searched_layouts import over_nodes
from perfmodel.answers.advice.served import Served, estimated, replayed
from perfmodel.answers.advice.smaller_weights import may_be_smaller
from perfmodel.errors import InputError

CONFIRMED = 2
"""Most estimates that are confirmed by replays, the best first."""


def fewest_gpus(question: AdviseQuery, most: float, drafts: bool) -> Served | None:
    """The fewest GPUs that serve a load whose number of GPUs is open, if they are at most this many; None
    without any. drafts: whether servers with drafts count.
    """
    estimates = _estimates(question, drafts, most=most)
    enough = [s for s in estimates if s.suffices and s.candidate.layout.gpus <= most]
    return _first_confirmed(question, enough)


def with_fp8_weights(question: AdviseQuery, layouts: Iterable[Layout]) -> Served | None:
    """The best servers of these layouts for a question with FP8 weights; None if they do not suffice."""
    return _first_confirmed(question, [s for s in _estimates(question, True, layouts) if s.suffices])


def in_fp8(question: AdviseQuery) -> AdviseQuery | None:
    """The question with FP8 weights; None if it names a format or the model's own is not one of 16 bits."""
    return replace(question, weights="fp8") if may_be_smaller(question) else None


def _estimates(
    question: AdviseQuery, drafts: bool, layouts: Iterable[Layout] | None = None, most: float = math.inf
) -> Iterator[Served]:
    """The servers by the closed form; without layouts, all that the question searches, and over several nodes
    where one is too small. most: GPUs of one server.
    """
    given = None if layouts is None else list(layouts)
    served = list(_of_layouts(question, drafts, given, most))
    if given is None and not any(s.suffices for s in served) and (larger := over_nodes(question)):
        served = list(_of_layouts(question, drafts, larger, most))
    yield from served


def _of_layouts(
    question: AdviseQuery, drafts: bool, layouts: list[Layout] | None, most: float
) -> Iterator[Served]:
    try:
        found = find_candidates(question, layouts)
    except InputError:
        return
    drafted = [c for c in found.drafted if drafts and question.may_choose(c.runs)]
    for candidate in (*found.baselines, *drafted):
        if candidate.layout.gpus > most:
            continue
        try:
            served = estimated(question, candidate, candidate in drafted)
        except InputError:
            continue
        if served is not None:
            yield served


def _first_confirmed(question: AdviseQuery, estimates: list[Served]) -> Served | None:
    """The best estimate that a replay confirms where the closed form does not hold."""
    if question.clients is not None:  # of whom as many wait in a replay
        estimates = [s for s in estimates if not s.queues]
    for estimate in sorted(estimates, key=lambda s: order(s, question))[:CONFIRMED]:
        served = replayed(question, estimate)
        if served is not None and served.suffices and not served.queues:
            return served
    return None
