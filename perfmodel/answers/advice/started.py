"""Makes an alternative of `advise` from servers under a load."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.served import Served


def started(text: str, question: AdviseQuery, served: Served) -> Alternative:
    """The alternative with these servers.

    - text: as in `Alternative`.
    """
    return Alternative.of(text, question, served.point, served.started_seats)
