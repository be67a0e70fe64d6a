"""The queue of prompts at a simulated server. It decides which prompts the next pass reads and which wait.

Requests are admitted in the order of arrival, as long as there are seats and room in the cache.
"""

from collections import deque
from collections.abc import Iterable

from perfmodel.queueing.batch_waits import BatchWaits
from perfmodel.queueing.cache import Cache
from perfmodel.queueing.groups import Groups
from perfmodel.queueing.load import Limits
from perfmodel.queueing.request import QueuedRequest


class PromptQueue:
    """The queue of prompts at a simulated server.

    - waiting: requests that have no seat yet.
    - entered: requests that have a seat and whose prompts are not completely read.
    - tokens_to_come: output tokens that all requests with a seat still have to decode.
    - may_hold: whether `holds` can ever return True.
    - waits_for_groups: whether prompts wait for prompts of other groups.
    """

    def __init__(self, limits: Limits, cache: Cache, groups: Groups | None) -> None:
        self.limits = limits
        self.cache = cache
        self.groups = groups
        self.waiting = deque[QueuedRequest]()
        self.entered = deque[QueuedRequest]()
        self.tokens_to_come = 0.0
        self.most_of_a_prompt = limits.max_prompt_part or limits.max_num_batched_tokens
        self.waits = BatchWaits(limits) if limits.batch_wait_passes else None
        self.waits_for_groups = groups is not None and groups.balance_passes > 0
        self.may_hold = self.waits_for_groups or self.waits is not None

    def add(self, request: QueuedRequest) -> None:
        """Adds an arriving request at the end of the queue."""
        if self.groups is not None:
            self.groups.join(request)
        self.waiting.append(request)

    def put_back(self, request: QueuedRequest, pass_number: int) -> None:
        """Puts a preempted request at the front of the queue."""
        if self.groups is not None:
            self.groups.preempt(request)
        request.from_pass = pass_number
        self.waiting.appendleft(request)

    def holds(self, running: int, decoding_tokens: int, pass_number: int) -> bool:
        """Whether all prompts wait during the next pass. They wait for a fuller pass, or for prompts of other
        groups.
        """
        if self.groups is not None and self.waits_for_groups and self.groups.holds(pass_number):
            return True
        if self.waits is None:
            return False
        tokens = decoding_tokens
        tokens += sum(request.unread_tokens for request in self.entered)
        tokens += sum(request.prompt_tokens for request in self.waiting)
        return self.waits.holds(running, tokens)

    def passes_to_go(self, passes: int, pass_number: int) -> int:
        """Number of passes until a prompt that waits now may be read. It is at most `passes`."""
        if self.waiting and self.waiting[0].from_pass > pass_number:
            passes = min(passes, self.waiting[0].from_pass - pass_number)
        if self.waits is not None and self.waits.passes:
            passes = 1
        if self.groups is not None and self.waits_for_groups and (self.waiting or self.entered):
            passes = min(passes, self.groups.passes_to_go(pass_number))
        return passes

    def take(self, budget: int, running: int, pass_number: int) -> list[QueuedRequest]:
        """The requests whose prompts the next pass reads, within a budget of tokens. Prompts that were read
        in part come first, then new prompts. The `part_tokens` of each request are set to the number of
        tokens that the pass reads.
        """
        if self.groups is not None:
            return self._take_by_group(self.groups, budget, running, pass_number)
        requests = []
        for request in self.entered:
            if budget <= 0:
                break
            budget -= self._take_part(request, budget)
            requests.append(request)
        while budget > 0 and self.waiting and self._enters(self.waiting[0], running, pass_number):
            request = self.waiting.popleft()
            budget -= self._take_part(request, budget)
            requests.append(request)
        return requests

    def _take_by_group(
        self, groups: Groups, budget: int, running: int, pass_number: int
    ) -> list[QueuedRequest]:
        """`take` with an equal share of the budget for each group."""
        left = [budget // groups.count] * groups.count
        requests = []
        for request in self.entered:
            if left[request.group] > 0:
                left[request.group] -= self._take_part(request, left[request.group])
                requests.append(request)
        for request in tuple(self.waiting):
            if max(left) <= 0:
                break
            if left[request.group] <= 0:
                continue
            if not self._enters(request, running, pass_number):
                break
            self.waiting.remove(request)
            left[request.group] -= self._take_part(request, left[request.group])
            requests.append(request)
        return requests

    def _take_part(self, request: QueuedRequest, budget: int) -> int:
        """Sets the tokens of a prompt that the next pass reads, and returns their number.

        - budget: number of tokens for which the pass has room.
        """
        tokens = min(request.unread_tokens, budget, self.most_of_a_prompt)
        request.part_tokens = tokens
        return tokens

    def _enters(self, request: QueuedRequest, running: int, pass_number: int) -> bool:
        """Gives a request a seat and room in the cache, unless it has to wait."""
        seats_taken = running + len(self.entered)
        if seats_taken >= self.limits.max_num_seqs:
            return False
        if request.from_pass > pass_number and running:
            return False
        cache = self.cache
        found = cache.find(request)
        room_tokens = cache.room_tokens
        if self.limits.reserved_output:
            room_tokens -= self._reserved_tokens(request)
        if seats_taken and cache.used_tokens + found.needed_tokens > room_tokens:
            return False
        request.hit_tokens = found.hit_tokens
        request.unread_tokens = request.prompt_tokens - found.hit_tokens
        cache.enter(request, found.needed_tokens)
        self.tokens_to_come += request.output_tokens - 1
        self.entered.append(request)
        return True

    def _reserved_tokens(self, request: QueuedRequest) -> float:
        """Number of tokens that a new request must leave free for output that is still to be decoded."""
        return self.limits.reserved_output * self.tokens_to_come + request.output_tokens

    def read(self, requests: Iterable[QueuedRequest]) -> list[QueuedRequest]:
        """Records that a pass has read parts of these prompts. Returns the requests whose prompts are now
        completely read.
        """
        whole = []
        for request in requests:
            request.unread_tokens -= request.part_tokens
            if not request.unread_tokens:
                self._leave(request)
                whole.append(request)
        return whole

    def _leave(self, request: QueuedRequest) -> None:
        """Removes a request whose prompt is completely read."""
        if self.entered[0] is request:
            self.entered.popleft()
        else:  # shorter than the first prompt, if the parts of prompts are limited
            self.entered.remove(request)
        if self.groups is not None:
            self.groups.start(request)
