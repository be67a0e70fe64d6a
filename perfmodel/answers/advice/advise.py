"""Finds the best layout of GPUs, draft, KV method and draft length, or finds that no speculation is best.

Every candidate is priced over all batches and draft lengths at once, or under a load as `traffic` predicts
it.
"""

from dataclasses import replace

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.at_batches import at_batches
from perfmodel.answers.advice.under_load import under_load
from perfmodel.answers.declaration import asks


@asks(AdviseQuery)
def advise(question: AdviseQuery) -> Advice:
    """Find the best layout of GPUs, draft, KV method and budget, gamma and batch, or keep the baseline.

    Only drafts whose acceptance was measured are searched: by rate, by a file, or in the bundled rows. Raises
    InputError for what the user got wrong.
    """
    answers = [_of_one_kind(each) for each in question.by_kind]
    feasible = [a for a in answers if a.chosen is not None]
    if not feasible or len(answers) == 1:
        return answers[0]
    feasible.sort(key=_by_worth)
    picks = tuple(a.chosen for a in feasible if a.chosen is not None)
    return replace(feasible[0], by_hardware=picks)


def _by_worth(answer: Advice) -> float:
    """Sorts the answers for several kinds of device: by price, else by the objective."""
    p = answer.chosen
    assert p is not None
    if answer.objective.name == "latency":
        return p.tpot_s
    if p.cost_per_million_tokens is not None:
        return p.cost_per_million_tokens
    return -p.throughput_tokens_per_s_per_device


def _of_one_kind(question: AdviseQuery) -> Advice:
    """The answer for one kind of device."""
    return under_load(question) if question.has_load else at_batches(question)
