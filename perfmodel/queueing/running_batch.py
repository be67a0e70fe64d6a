"""The decoding requests of a replay, in the order in which they end.

Each pass does the same work for every request. A request ends when the passes since its start have done all
its work. The passes between the ends of two requests therefore need not be simulated one by one.
"""

from heapq import heappop, heappush

from msgspec import Struct

from perfmodel.queueing.request import QueuedRequest

NEGLIGIBLE_WORK = 1e-6
"""Share of an iteration below which remaining work counts as done."""


class Ending(Struct, frozen=True, order=True, gc=False):
    """The end of an answer in a replay.

    - work: the value of `RunningBatch.work` at which the answer ends.
    - stay: value of `QueuedRequest.stay` when the request joined the batch. A preemption changes the value of
      the request and thus makes this end void.
    """

    work: float
    number: int
    stay: int
    request: QueuedRequest

    @property
    def void(self) -> bool:
        """Whether the request has already left the batch, either at this end or earlier because of a
        preemption.
        """
        return self.stay != self.request.stay


class RunningBatch:
    """The requests that decode at the same time.

    - work: total work that all passes so far have done per request.
    - size: number of requests.
    - growth: number of tokens that all requests together add to the cache per unit of work.
    """

    def __init__(self) -> None:
        self.work = 0.0
        self.size = 0
        self.growth = 0.0
        self.endings: list[Ending] = []
        self.youngest: list[Ending] = []

    @property
    def left(self) -> float:
        """Work until the next answer ends. The result may be too small if a preempted request would have
        ended earlier.
        """
        return self.endings[0].work - self.work

    def start(self, request: QueuedRequest) -> None:
        """Adds a request that decodes from now on."""
        ending = Ending(self.work + request.work, request.number, request.stay, request)
        heappush(self.endings, ending)
        self.youngest.append(ending)
        self.size += 1
        self.growth += request.growth

    def take_ended(self) -> Ending | None:
        """Removes and returns the end of the next request that has all its tokens. Returns None if there is
        no such request.
        """
        done = self.work + NEGLIGIBLE_WORK
        endings = self.endings
        while endings:
            ending = endings[0]
            if not ending.void:
                if ending.work > done:
                    return None
                heappop(endings)
                self._take_out(ending.request)
                return ending
            heappop(endings)
        return None

    def take_youngest(self) -> Ending:
        """Removes the request that began to decode last, and returns its end."""
        while self.youngest[-1].void:  # the request has left the batch
            self.youngest.pop()
        ending = self.youngest.pop()
        self._take_out(ending.request)
        return ending

    def _take_out(self, request: QueuedRequest) -> None:
        """Removes a request from the batch."""
        self.size -= 1
        self.growth -= request.growth
        request.stay += 1
