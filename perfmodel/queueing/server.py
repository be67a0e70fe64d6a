"""The state of a replayed server, and how each of its passes changes it.

Every pass runs all decoding requests and fills the rest of its token budget with prompts. Requests enter
while there are seats and KV room. If caches outgrow the room, the youngest request is preempted and its
tokens are computed again, as in vLLM. Passes between two events are taken at once, so ten thousand requests
take about a second.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.batch_waits import BatchWaits
from perfmodel.queueing.cache import Cache
from perfmodel.queueing.groups import Groups
from perfmodel.queueing.load import Limits
from perfmodel.queueing.pass_times import PassTimes
from perfmodel.queueing.request import QueuedRequest
from perfmodel.queueing.senders import Senders

NEGLIGIBLE_WORK = 1e-6
"""Share of an iteration below which remaining work counts as done."""


@dataclass(frozen=True, slots=True)
class ReplayedRequests:
    """Times of every request in seconds, in the order of arrival. `running` is a mean over time. hit_rate:
    share of prompt tokens that the prefix cache held.
    """

    ttft_s: Array
    tpot_s: Array
    e2e_s: Array
    output_tokens: NDArray[np.int64]
    running: float
    duration_s: float
    preemptions: int
    hit_rate: float | None = None

    @property
    def mean_tpot_s(self) -> float:
        """Mean over the requests with two tokens or more; 0 without any."""
        several = self.tpot_s[self.output_tokens > 1]
        return float(several.mean()) if several.size else 0.0


class Ending(NamedTuple):
    """The end of an answer: the server's `work` at which it comes. stay: which stay of the request it ends;
    a preemption ends a stay sooner.
    """

    work: float
    number: int
    stay: int
    request: QueuedRequest


class Server:
    """The state of a replay: times in seconds, caches in tokens. work: sum of the gains of all passes."""

    def __init__(
        self,
        passes: Sequence[PassTimes],
        limits: Limits,
        cache: Cache,
        requests: Sequence[QueuedRequest],
        senders: Senders,
        prompts_first: bool,
        groups: Groups | None,
    ) -> None:
        self.limits = limits
        self.cache = cache
        self.requests = requests
        self.senders = senders
        self.passes = passes
        self.last = len(self.passes) - 1
        self.prompts_first = prompts_first
        self.most_of_a_prompt = limits.max_prompt_part or limits.max_num_batched_tokens
        self.time_s = 0.0
        self.pass_number = 0
        self.next_poll = 0
        self.work = 0.0
        self.waiting = deque[QueuedRequest]()
        self.reading = deque[QueuedRequest]()
        self.endings: list[Ending] = []
        self.youngest: list[QueuedRequest] = []
        self.running = 0
        self.grows = 0.0
        self.decoding_s = 0.0
        self.preemptions = 0
        self.answered = 0
        self.outstanding_tokens = 0.0
        self.waits = BatchWaits(limits) if limits.batch_wait_passes else None
        self.groups = groups

    def run(self, output_tokens: NDArray[np.int64]) -> ReplayedRequests:
        """Runs all requests to their last token. output_tokens: as they arrived."""
        count = len(self.requests)
        senders = self.senders
        polls_always = self.limits.poll_passes == 1
        while self.answered < count:
            if (polls_always or self._polls()) and senders.next_s <= self.time_s:
                self._arrive()
            each = self.passes[min(self.running, self.last)]
            if self.reading or self.waiting:
                prompts = [] if self._holds(each) else self._prompts(each)
            elif self.running:
                prompts = []
            else:
                self.time_s = senders.next_s
                continue
            if not prompts:
                self._pass(each, prompts, self._passes_until_event(each))
            elif self.prompts_first:
                self._prompt_pass(each, prompts)
            else:
                self._pass(each, prompts, 1)
            self._finish()
        sent = np.array([request.sent_s for request in self.requests])
        first = np.array([request.first_s for request in self.requests])
        ended = np.array([request.ended_s for request in self.requests])
        return ReplayedRequests(
            ttft_s=first - sent,
            tpot_s=(ended - first) / np.maximum(output_tokens - 1, 1),
            e2e_s=ended - sent,
            output_tokens=output_tokens,
            running=self.decoding_s / self.time_s,
            duration_s=self.time_s,
            preemptions=self.preemptions,
            hit_rate=self.cache.hit_rate,
        )

    def _polls(self) -> bool:
        """Whether the server looks for new requests before the coming pass; an idle one always does."""
        if self.running and self.pass_number < self.next_poll:
            return False
        self.next_poll = self.pass_number + self.limits.poll_passes
        return True

    def _holds(self, each: PassTimes) -> bool:
        """Whether prompts wait for a fuller pass, or for those of other groups."""
        if self.groups is not None and self.groups.holds(self.pass_number):
            return True
        if self.waits is None:
            return False
        tokens = self.running * each.tokens
        tokens += sum(request.unread_tokens for request in self.reading)
        tokens += sum(request.prompt_tokens for request in self.waiting)
        return self.waits.holds(self.running, tokens)

    def _arrive(self) -> None:
        """Adds the requests that came while the last pass ran."""
        for coming in self.senders.arrived(self.time_s):
            request = coming.request
            ahead = request.late if self.running else 0
            request.from_pass = max(self.pass_number, coming.from_pass) + ahead
            if self.groups is not None:
                self.groups.join(request)
            self.waiting.append(request)

    def _prompts(self, each: PassTimes) -> list[QueuedRequest]:
        """The requests whose prompts the coming pass reads, with the tokens of each."""
        budget = self.limits.max_num_batched_tokens
        if not self.prompts_first:
            budget -= self.running * each.tokens
        if self.groups is not None:
            return self._prompts_by_group(self.groups, budget)
        requests = []
        for request in self.reading:
            if budget <= 0:
                break
            budget -= self._take_part(request, budget)
            requests.append(request)
        while budget > 0 and self.waiting and self._admit(self.waiting[0]):
            request = self.waiting.popleft()
            budget -= self._take_part(request, budget)
            requests.append(request)
        return requests

    def _prompts_by_group(self, groups: Groups, budget: int) -> list[QueuedRequest]:
        """`_prompts` with an equal share of the budget for each group."""
        left = [budget // groups.count] * groups.count
        requests = []
        for request in self.reading:
            if left[request.group] > 0:
                left[request.group] -= self._take_part(request, left[request.group])
                requests.append(request)
        for request in tuple(self.waiting):
            if max(left) <= 0:
                break
            if left[request.group] <= 0:
                continue
            if not self._admit(request):
                break
            self.waiting.remove(request)
            left[request.group] -= self._take_part(request, left[request.group])
            requests.append(request)
        return requests

    def _take_part(self, request: QueuedRequest, budget: int) -> int:
        """The tokens of a prompt that the coming pass reads, of so many that it has room for."""
        tokens = request.unread_tokens
        most = self.most_of_a_prompt
        if tokens > budget or tokens > most:
            tokens = min(budget, most)
        request.part_tokens = tokens
        return tokens

    def _admit(self, request: QueuedRequest) -> bool:
        """Gives a request a seat and room in the cache, unless it has to wait."""
        seats_taken = self.running + len(self.reading)
        if seats_taken and seats_taken >= self.limits.max_num_seqs:
            return False
        if request.from_pass > self.pass_number and self.running:
            return False
        cache = self.cache
        hit_tokens, needed_tokens = cache.find(request)
        room_tokens = cache.room_tokens
        if self.limits.reserved_output:
            room_tokens -= self._reserved_tokens(request)
        if seats_taken and cache.used_tokens + needed_tokens > room_tokens:
            return False
        request.hit_tokens = hit_tokens
        request.unread_tokens = request.prompt_tokens - hit_tokens
        cache.enter(request, needed_tokens)
        self.outstanding_tokens += request.output_tokens - 1
        self.reading.append(request)
        return True

    def _reserved_tokens(self, request: QueuedRequest) -> float:
        """Room that a new request must leave for tokens still to come."""
        return self.limits.reserved_output * self.outstanding_tokens + request.output_tokens

    def _passes_until_event(self, each: PassTimes) -> int:
        """Number of passes until an event other than decoding."""
        passes = math.ceil((self.endings[0].work - self.work) / each.gain - NEGLIGIBLE_WORK)
        room_tokens = self.cache.room_tokens - self.cache.used_tokens
        fitting = int(room_tokens / (self.grows * each.gain)) + 1
        if fitting < passes:
            passes = fitting
        if self.senders.coming:
            undisturbed = int((self.senders.next_s - self.time_s) / each.decode_s) + 1
            if undisturbed < passes:
                passes = undisturbed
        if self.waiting and self.waiting[0].from_pass > self.pass_number:
            passes = min(passes, self.waiting[0].from_pass - self.pass_number)
        if self.limits.poll_passes > 1:
            passes = min(passes, self.next_poll - self.pass_number)
        if self.waits is not None and self.waits.passes:
            passes = 1
        if self.groups is not None and (self.waiting or self.reading):
            passes = min(passes, self.groups.passes_to_go(self.pass_number))
        return max(passes, 1)

    def _pass(self, each: PassTimes, prompts: Sequence[QueuedRequest], passes: int) -> None:
        """Runs a number of passes, the first of which reads prompts."""
        seconds = passes * each.decode_s
        if prompts:
            seconds += self._prompts_s(each, prompts)
        work = passes * each.gain
        tokens = work * self.grows
        self.decoding_s += self.running * seconds
        self.time_s += seconds
        self.pass_number += passes
        self.work += work
        self.cache.used_tokens += tokens
        self.outstanding_tokens -= tokens
        if prompts:
            self._read(prompts)

    def _prompt_pass(self, each: PassTimes, prompts: Sequence[QueuedRequest]) -> None:
        """Runs a pass of prompts alone, while those that decode wait."""
        seconds = self._prompts_s(each, prompts)
        self.decoding_s += self.running * seconds
        self.time_s += seconds
        self.pass_number += 1
        self._read(prompts)

    def _read(self, prompts: Sequence[QueuedRequest]) -> None:
        """Prompts have been read as far as the pass had room; the whole ones decode."""
        self.next_poll = self.pass_number
        for request in prompts:
            request.unread_tokens -= request.part_tokens
            if not request.unread_tokens:
                self._start(request)

    def _prompts_s(self, each: PassTimes, prompts: Sequence[QueuedRequest]) -> float:
        """Seconds that prompts add to a pass."""
        tokens = sum([request.part_tokens for request in prompts])
        if each.prompts_s is None:
            return tokens * each.prompt_token_s
        batch = max(min(self.running, self.last), 1)
        fullest = tokens if self.groups is None else self.groups.fullest_tokens(prompts)
        added_s = each.prompts_s(batch * each.tokens, tokens, fullest)
        if self.cache.shared:
            pairs = sum([request.part_tokens * request.hit_tokens for request in prompts])
            added_s += each.cached_s * pairs
        return added_s

    def _start(self, request: QueuedRequest) -> None:
        """A prompt has been read. Its first token is out (unless the request was preempted before), and it
        decodes.
        """
        if self.reading[0] is request:
            self.reading.popleft()
        else:  # a shorter prompt than the first, where parts are limited
            self.reading.remove(request)
        if self.groups is not None:
            self.groups.start(request)
        if not request.preempted:
            request.first_s = self.time_s
        if request.output_tokens == 1:
            return self._leave(request)
        heappush(self.endings, Ending(self.work + request.work, request.number, request.stay, request))
        self.youngest.append(request)
        self.running += 1
        self.grows += request.growth

    def _finish(self) -> None:
        """Requests with all their tokens leave. The youngest ones go back to the queue while caches outgrow
        the room.
        """
        endings = self.endings
        done = self.work + NEGLIGIBLE_WORK
        while endings and endings[0].work <= done:
            ending = heappop(endings)
            if ending.stay == ending.request.stay:
                beyond_tokens = (self.work - ending.work) * ending.request.growth
                self.cache.used_tokens -= beyond_tokens
                self.outstanding_tokens += beyond_tokens
                self._vacate(ending.request)
                self._leave(ending.request)
        while endings and endings[0].stay != endings[0].request.stay:
            heappop(endings)
        cache = self.cache
        while cache.used_tokens > cache.room_tokens and self.running > 1:
            self._preempt()
        if cache.shared:
            cache.trim()

    def _vacate(self, request: QueuedRequest) -> None:
        """A request stops decoding."""
        self.running -= 1
        self.grows -= request.growth
        request.stay += 1

    def _leave(self, request: QueuedRequest) -> None:
        """A request with all its tokens leaves, and its client may send another one."""
        request.ended_s = self.time_s
        self.cache.leave(request, request.output_tokens - 1)
        if self.groups is not None:
            self.groups.leave(request)
        self.answered += 1
        self.senders.answered(request, self.time_s, self.pass_number + (self.running > 0))

    def _preempt(self) -> None:
        """The youngest request gives its cache back, and waits in front of all others."""
        ends = {end.number: end.work for end in self.endings if end.stay == end.request.stay}
        while self.youngest[-1].number not in ends:
            self.youngest.pop()
        request = self.youngest.pop()
        left = ends[request.number] - self.work
        decoded = (request.work - left) * request.growth
        self.outstanding_tokens -= left * request.growth
        self.cache.leave(request, decoded, keep=False)
        self._vacate(request)
        self.preemptions += 1
        if self.groups is not None:
            self.groups.preempt(request)
        request.preempted = True
        request.prompt_tokens += round(decoded)
        request.output_tokens -= round(decoded)
        request.work = left
        request.from_pass = self.pass_number
        self.waiting.appendleft(request)
