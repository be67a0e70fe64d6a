"""Servers under a load as an alternative with their command line."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.served import Served


def started(text: str, question: AdviseQuery, served: Served) -> Alternative:
    """These servers as an alternative. text: as in `Alternative`."""
    return Alternative.of(text, question, served.point, served.started_seats)
