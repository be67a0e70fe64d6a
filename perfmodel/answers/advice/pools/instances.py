"""Predicts the decoding passes and the prefill of each instance (one server of a pool). Each instance is only
predicted once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates
from perfmodel.answers.advice.served import question_of
from perfmodel.answers.load.completed import check_lengths, completed
from perfmodel.answers.load.pool_prices import lengths_of, prompts_of, scenario_of, steps_of
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_state import Prompts
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import InputError
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation import Scenario


@dataclass(frozen=True, eq=False)
class Instance:
    """One instance of a candidate.

    - steps: draft length -> the times of its decoding passes.
    - prompts: the times of its prefill.
    """

    candidate: Candidate
    layout: Instances
    scenario: Scenario
    steps: dict[int, StepTimes]
    prompts: Prompts


@dataclass(frozen=True, eq=False)
class Drafting:
    """All instances with the same draft.

    - draft: the draft; None if the instances have no draft.
    - question: the question to `traffic` with the load.
    """

    draft: str | None
    question: TrafficQuery
    instances: list[Instance]


def drafting_of(question: AdviseQuery, found: Candidates, load: dict[str, Any]) -> list[Drafting]:
    """The instances without a draft, and the instances with each draft that may be recommended.

    - load: the load as arguments of `traffic`.

    Raises InputError for requests with more tokens than the model has positions.
    """
    made = [_drafting(question, found.baselines, load, drafts=False)] if found.baselines else []
    by_draft: dict[tuple[str | None, str | None], list[Candidate]] = {}
    for candidate in found.drafted:
        if question.may_choose(candidate.runs):
            named = candidate.asked.draft, candidate.asked.draft_kv
            by_draft.setdefault(named, []).append(candidate)
    made += [_drafting(question, candidates, load, drafts=True) for candidates in by_draft.values()]
    return made


def _drafting(
    question: AdviseQuery, candidates: list[Candidate], load: dict[str, Any], drafts: bool
) -> Drafting:
    first = candidates[0]
    asked, _ = completed(question_of(question, first, drafts, **load))
    check_lengths(asked, first.scenario.target)
    asked = replace(asked, draft_tp=None)  # as many devices as the target
    draft = first.scenario.draft.name if drafts else None
    return Drafting(draft, asked, list(_priced(asked, candidates, drafts)))


def _priced(asked: TrafficQuery, candidates: list[Candidate], drafts: bool) -> Iterator[Instance]:
    """The instances with memory for at least one request. A layout is left out if the times of its messages
    are unknown.
    """
    for candidate in candidates:
        try:
            instance = _instance(asked, candidate, drafts)
        except InputError:
            continue
        if instance.steps:
            yield instance


def _instance(asked: TrafficQuery, candidate: Candidate, drafts: bool) -> Instance:
    server = candidate.layout
    layout = Instances(1, server.server_gpus, server.dp, server.ep)
    scenario = scenario_of(asked, layout)
    gammas = [gamma for gamma in lengths_of(asked, scenario) if (gamma > 0) is drafts]
    steps = {each.gamma: each for each in steps_of(asked, layout, scenario, gammas) if each.seats}
    return Instance(candidate, layout, scenario, steps, prompts_of(asked, layout, scenario, drafts))
