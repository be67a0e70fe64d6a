"""Predicts the figures of all public runs with the bundled constants, once per process."""

from functools import cache
from typing import NamedTuple

from perfmodel.errors import InputError
from perfmodel.specs import ENGINES as KNOWN_ENGINES, LLAMACPP
from perfmodel.validate.studies.answered_runs import Answered, answers
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import PublicRun, public_runs

TITLES = ENGINES | {LLAMACPP: KNOWN_ENGINES[LLAMACPP]}
"""Engine -> its heading in tables, for the engines whose public runs are predicted."""


class PublicAnswers(NamedTuple):
    """The predicted figures of public runs.

    - refused: id of a run that could not be predicted -> the error message.
    """

    answered: tuple[Answered, ...]
    refused: dict[str, str]


def answered() -> tuple[Answered, ...]:
    """The predicted figures of all runs that count in the coverage of intervals
    (`PublicRun.counts_as_inside`).
    """
    return _public_answers().answered


def refusals() -> dict[str, str]:
    """Id of a run that could not be predicted -> the error message."""
    return _public_answers().refused


def of_figure(figure: str) -> list[Answered]:
    """The predictions of one figure, for the runs that count in the errors.

    - figure: ``step``, ``speedup`` or ``ratio`` (see `Answered`).
    """
    return [a for a in answered() if a.figure == figure and a.run.counts]


@cache
def _public_answers() -> PublicAnswers:
    answered: list[Answered] = []
    refused: dict[str, str] = {}
    for run in filter(_is_predicted, public_runs()):
        try:
            answered += answers(run)
        except InputError as refusal:
            refused[run.id] = str(refusal)
    return PublicAnswers(tuple(answered), refused)


def _is_predicted(run: PublicRun) -> bool:
    return run.engine in TITLES and run.counts_as_inside and run.is_complete
