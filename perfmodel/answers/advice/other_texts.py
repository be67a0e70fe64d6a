"""Says when the acceptance of a searched draft was measured on text of another kind than the question's."""

from collections.abc import Iterable, Iterator

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.text import Note
from perfmodel.specs.acceptance.acceptance_library import USUAL


def other_texts(query: AdviseQuery, drafted: Iterable[Candidate]) -> Iterator[Note]:
    """At most one note: the drafts whose published acceptance is of other text than that of the question.

    - drafted: the searched candidates with a draft.
    """
    wanted = USUAL if query.task is None else (query.task,)
    others = dict[str, str]()
    for each in drafted:
        acceptance = each.scenario.acceptance
        if acceptance is not None and not set(acceptance.tasks) <= set(wanted):
            others[str(each.asked.draft)] = " and ".join(acceptance.tasks)
    if others:
        measured = " and ".join(f"{draft} (measured on {text} text)" for draft, text in others.items())
        yield Note(f"no acceptance on {' or '.join(wanted)} text is published for {measured}")
