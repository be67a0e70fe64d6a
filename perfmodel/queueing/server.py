"""Simulates a server pass by pass.

A pass runs all decoding requests and fills the rest of its token budget with prompts. If the engine reads
prompts first, prompts run in separate passes. If it alternates between prompts and decoding, one simulated
pass stands for both: its time is their sum, and first tokens come at its end.

If the caches need more memory than there is, the youngest request is preempted and its tokens are computed
again, as in vLLM. Passes between two events are simulated in one step, so the replay of 10,000 requests takes
about a second.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfmodel.queueing.cache import Cache
from perfmodel.queueing.groups import Groups
from perfmodel.queueing.load import Limits
from perfmodel.queueing.pass_times import PassTimes
from perfmodel.queueing.prompt_queue import PromptQueue
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.queueing.request import QueuedRequest
from perfmodel.queueing.running_batch import NEGLIGIBLE_WORK, RunningBatch
from perfmodel.queueing.senders import Senders


class Server:
    """The state of a simulated server: its time in seconds, its prompts, and its decoding batch.

    - next_poll: number of the pass before which the server checks for new requests next.
    - decoding_s: seconds that requests have spent in the decoding batch, summed over requests.
    """

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
        self.groups = groups
        self.prompts = PromptQueue(limits, cache, groups)
        self.batch = RunningBatch()
        self.time_s = 0.0
        self.pass_number = 0
        self.next_poll = 0
        self.decoding_s = 0.0
        self.preemptions = 0
        self.answered = 0

    def run(self, output_tokens: NDArray[np.int64]) -> ReplayedRequests:
        """Runs all requests to their last token.

        - output_tokens: output length of each request at its arrival.
        """
        count = len(self.requests)
        senders = self.senders
        batch = self.batch
        queue = self.prompts
        polls_always = self.limits.poll_passes == 1
        while self.answered < count:
            if (polls_always or self._polls()) and senders.next_s <= self.time_s:
                self._arrive()
            each = self.passes[min(batch.size, self.last)]
            if queue.entered or queue.waiting:
                prompts = self._prompts(each)
            elif batch.size:
                prompts = []
            else:
                self.time_s = senders.next_s
                continue
            if not prompts:
                self._decode(each, self._passes_until_event(each))
            elif self.prompts_first:
                self._read(each, prompts)
            else:
                self._decode_and_read(each, prompts)
            self._finish()
        return self._replayed(output_tokens)

    def _replayed(self, output_tokens: NDArray[np.int64]) -> ReplayedRequests:
        sent = np.array([request.sent_s for request in self.requests])
        first = np.array([request.first_s for request in self.requests])
        ended = np.array([request.ended_s for request in self.requests])
        return ReplayedRequests(
            ttft_s=first - sent,
            tpot_s=(ended - first) / np.maximum(output_tokens - 1, 1),
            e2e_s=ended - sent,
            output_tokens=output_tokens,
            running=float(self.decoding_s / self.time_s),
            duration_s=float(self.time_s),
            preemptions=self.preemptions,
            hit_rate=self.cache.hit_rate,
        )

    def _polls(self) -> bool:
        """Whether the server checks for new requests before the next pass. An idle server always does."""
        if self.batch.size and self.pass_number < self.next_poll:
            return False
        self.next_poll = self.pass_number + self.limits.poll_passes
        return True

    def _arrive(self) -> None:
        """Adds the requests that arrived during the last pass."""
        for coming in self.senders.arrived(self.time_s):
            request = coming.request
            ahead = request.late if self.batch.size else 0
            request.from_pass = max(self.pass_number, coming.from_pass) + ahead
            self.prompts.add(request)

    def _prompts(self, each: PassTimes) -> list[QueuedRequest]:
        """The requests whose prompts the next pass reads."""
        running = self.batch.size
        decoding_tokens = running * each.tokens
        if self.prompts.may_hold and self.prompts.holds(running, decoding_tokens, self.pass_number):
            return []
        budget = self.limits.max_num_batched_tokens
        if not self.prompts_first:
            budget -= decoding_tokens
        return self.prompts.take(budget, running, self.pass_number)

    def _passes_until_event(self, each: PassTimes) -> int:
        """Number of passes until something other than decoding happens."""
        passes = math.ceil(self.batch.left / each.gain - NEGLIGIBLE_WORK)
        room_tokens = self.cache.room_tokens - self.cache.used_tokens
        fitting = int(room_tokens / (self.batch.growth * each.gain)) + 1
        if fitting < passes:
            passes = fitting
        if self.senders.coming:
            undisturbed = int((self.senders.next_s - self.time_s) / each.decode_s) + 1
            if undisturbed < passes:
                passes = undisturbed
        if self.limits.poll_passes > 1:
            passes = min(passes, self.next_poll - self.pass_number)
        passes = self.prompts.passes_to_go(passes, self.pass_number)
        return max(passes, 1)

    def _decode(self, each: PassTimes, passes: int) -> None:
        """Runs a number of passes that read no prompts."""
        self._pass(passes * each.decode_s, passes, passes * each.gain)

    def _decode_and_read(self, each: PassTimes, prompts: Sequence[QueuedRequest]) -> None:
        """Runs a pass that reads prompts and decodes."""
        self._pass(each.decode_s + self._prompts_s(each, prompts), 1, each.gain)
        self._start_read(prompts)

    def _read(self, each: PassTimes, prompts: Sequence[QueuedRequest]) -> None:
        """Runs a pass that only reads prompts, while decoding requests wait."""
        self._pass(self._prompts_s(each, prompts), 1, 0.0)
        self._start_read(prompts)

    def _pass(self, seconds: float, passes: int, work: float) -> None:
        """Advances the time by some passes, in which all requests of the batch gain tokens.

        - seconds, passes, work: the time and the number of these passes, and the work that they do per
          request.
        """
        batch = self.batch
        self.decoding_s += batch.size * seconds
        self.time_s += seconds
        self.pass_number += passes
        tokens = work * batch.growth
        batch.work += work
        self.cache.used_tokens += tokens
        self.prompts.tokens_to_come -= tokens

    def _prompts_s(self, each: PassTimes, prompts: Sequence[QueuedRequest]) -> float:
        """Seconds that prompts add to a pass."""
        tokens = sum([request.part_tokens for request in prompts])
        if each.prompts_s is None:
            return tokens * each.prompt_token_s
        batch = max(min(self.batch.size, self.last), 1)
        fullest = tokens if self.groups is None else self.groups.fullest_tokens(prompts)
        added_s = each.prompts_s(batch * each.tokens, tokens, fullest)
        if self.cache.shared:
            pairs = sum([request.part_tokens * request.hit_tokens for request in prompts])
            added_s += each.cached_s * pairs
        return added_s

    def _start_read(self, prompts: Sequence[QueuedRequest]) -> None:
        """Marks the prompt tokens of the last pass as read. Requests whose prompts are completely read begin
        to decode.
        """
        self.next_poll = self.pass_number
        for request in self.prompts.read(prompts):
            self._start(request)

    def _start(self, request: QueuedRequest) -> None:
        """Begins to decode a request whose prompt is completely read. This pass has produced the first token,
        unless the request was preempted before.
        """
        if not request.preempted:
            request.first_s = self.time_s
        if request.output_tokens == 1:
            self._leave(request)
        else:
            self.batch.start(request)

    def _finish(self) -> None:
        """Removes requests that have all their tokens. If the caches need more memory than there is, the
        youngest requests are preempted.
        """
        batch = self.batch
        while batch.endings and (ending := batch.take_ended()) is not None:
            beyond_tokens = (batch.work - ending.work) * ending.request.growth
            self.cache.used_tokens -= beyond_tokens
            self.prompts.tokens_to_come += beyond_tokens
            self._leave(ending.request)
        cache = self.cache
        while cache.used_tokens > cache.room_tokens and batch.size > 1:
            self._preempt()
        if cache.shared:
            cache.trim()

    def _leave(self, request: QueuedRequest) -> None:
        """Removes a request that has all its tokens. Its client may then send the next request."""
        request.ended_s = self.time_s
        self.cache.leave(request, request.output_tokens - 1)
        if self.groups is not None:
            self.groups.leave(request)
        self.answered += 1
        self.senders.answered(request, self.time_s, self.pass_number + (self.batch.size > 0))

    def _preempt(self) -> None:
        """Preempts the youngest request: its cache is freed, and its decoded tokens become part of its
        prompt.
        """
        ending = self.batch.take_youngest()
        request = ending.request
        left = ending.work - self.batch.work
        decoded = (request.work - left) * request.growth
        self.prompts.tokens_to_come -= left * request.growth
        self.cache.leave(request, decoded, keep=False)
        self.preemptions += 1
        request.preempted = True
        request.prompt_tokens += round(decoded)
        request.output_tokens -= round(decoded)
        request.work = left
        self.prompts.put_back(request, self.pass_number)
