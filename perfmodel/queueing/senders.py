"""The senders of a replay's requests. They send requests at given times, or when an answer ends."""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from perfmodel.queueing.blocks import Shared
from perfmodel.queueing.request import QueuedRequest


class Coming(Struct, frozen=True, order=True, gc=False):
    """A request that was sent: the time when it reaches the server, and the first pass that may read its
    prompt.
    """

    at_s: float
    number: int
    from_pass: int
    request: QueuedRequest


class Senders:
    """The requests that have not reached the server yet. In a session, each request is sent after the answer
    to the previous one.

    - clients: number of clients. Each client sends its first request at the time of that request, and each
      next request when the previous one is answered. It is None if each request has its own arrival time.
    - cap: the largest number of requests at the server. A request beyond this number is sent when another
      request ends.
    - next_s: time when the next request reaches the server. It is infinite if no request is on its way.
    - own_s: seconds between the sending of a request and its arrival at the server.
    """

    def __init__(
        self,
        requests: Sequence[QueuedRequest],
        shared: Shared | None,
        own_s: float,
        clients: int | None,
        cap: int | None,
    ) -> None:
        self.own_s = own_s
        self.closed = clients is not None
        self.cap = cap or len(requests)
        self.at_server = 0
        self.held = deque[QueuedRequest]()
        self.later = dict[int, QueuedRequest]()
        self.think_s: Sequence[float] = ()
        first = list(requests)
        if shared is not None and shared.follows:
            self.think_s = shared.think_s
            first = []
            for request in requests:
                before = shared.follows[request.number]
                if before is None:
                    first.append(request)
                else:
                    self.later[before] = request
        begin = len(first) if clients is None else clients
        self.unsent = deque(first[begin:])
        self.coming = [Coming(r.sent_s + own_s, r.number, 0, r) for r in first[:begin]]
        heapify(self.coming)
        self.next_s = self._first_s()

    def _first_s(self) -> float:
        return self.coming[0].at_s if self.coming else math.inf

    def arrived(self, time_s: float) -> Iterator[Coming]:
        """Yields the requests that have reached the server by `time_s`. Requests beyond the cap are held
        back.
        """
        while self.next_s <= time_s:
            coming = heappop(self.coming)
            self.next_s = self._first_s()
            if self.at_server == self.cap:
                self.held.append(coming.request)
                continue
            self.at_server += 1
            yield coming

    def answered(self, request: QueuedRequest, time_s: float, from_pass: int) -> None:
        """Records that a request has left the server, and sends the requests that waited for it.

        - from_pass: number of the first pass that may read a request that is sent now.
        """
        self.at_server -= 1
        if self.held:
            self._send(self.held.popleft(), time_s, from_pass)
        if (later := self.later.get(request.number)) is not None:
            thought_s = time_s + self.think_s[later.number]
            self._send(later, max(thought_s, later.sent_s), from_pass)
        elif self.closed and self.unsent:
            self._send(self.unsent.popleft(), time_s, from_pass)

    def _send(self, request: QueuedRequest, at_s: float, from_pass: int) -> None:
        request.sent_s = at_s
        heappush(self.coming, Coming(at_s + self.own_s, request.number, from_pass, request))
        self.next_s = self._first_s()
