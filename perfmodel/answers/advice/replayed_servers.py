"""Finds how many servers of a candidate a load needs, with replays, because the closed form may be
inaccurate.
"""

from bisect import bisect_left
from collections.abc import Callable

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.reach import Reach, keeps, load_of
from perfmodel.answers.advice.servers_needed import (
    fitting_seats,
    question_of,
    queues,
    share_of_load,
)
from perfmodel.answers.load.largest_load import Largest, OneServer

MOST_MORE = 2
"""The search ends at about this many times the estimated number of servers.

In 17 different searches of the test questions, the result was at most 1.25 times the estimate, except for an
estimate of 1 and a result of 2. The factor 2 includes both, and limits the number of replays.
"""


def servers_by_replays(question: AdviseQuery, candidate: Candidate, drafts: bool, near: int) -> int | None:
    """The smallest number of servers of a candidate that serves the load within the limits.

    - near: an estimate, at which the search starts.
    """
    asked = question_of(question, candidate, drafts, **share_of_load(question, near))
    server = OneServer.of(asked, drafts)
    not_searched = Largest(None, None)  # `fewest_of` asks the server for each load, and not for its largest
    return fewest_of(question, Reach(candidate, server, not_searched), near)


def fewest_of(question: AdviseQuery, reach: Reach, near: int) -> int | None:
    """The smallest number of servers of a reach that serves the load within the limits and without a queue.

    - near: an estimate, at which the search starts.

    The result is None if no number up to about `MOST_MORE` times the estimate is sufficient. The predictions
    have an accuracy of about one per cent (`rough`), because the search makes several of them. The callers
    predict the chosen number again.
    """

    def serve(servers: int) -> bool:
        row = reach.row(load_of(question), servers, rough=True)
        return (
            row is not None
            and keeps(row)
            and not queues(row, fitting_seats(question, reach.candidate, int(row.gamma)))
        )

    return fewest(serve, near, MOST_MORE * near + 1)


def fewest(serve: Callable[[int], bool], near: int, most: int) -> int | None:
    """The smallest number of servers, up to about `most`, for which `serve` is true. The result is None if
    there is no such number. The search starts at the estimate `near`, and its steps double. The search
    assumes that more servers always serve at least as much.
    """
    step = 1
    if serve(near):
        enough = near
        too_few = near - step
        while too_few >= 1 and serve(too_few):
            enough = too_few
            step *= 2
            too_few = enough - step
        too_few = max(too_few, 0)
    else:
        too_few = near
        enough = near + step
        while not serve(enough):
            if enough >= most:
                return None
            too_few = enough
            step *= 2
            enough = too_few + step
    between = range(too_few + 1, enough)
    return between.start + bisect_left(between, True, key=serve)
