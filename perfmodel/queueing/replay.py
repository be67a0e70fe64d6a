"""A discrete-event model of a continuous-batching server, pass by pass. It checks the closed form.

Requests are served in the order of arrival. Every pass runs all decoding requests and fills the rest of its
token budget with prompts. Requests enter while there are seats and KV room. If caches outgrow the room, the
youngest request is preempted and its tokens are computed again, as in vLLM. A request's iterations are drawn
in advance, token by token, from its own acceptance. Passes between two events are taken at once, so ten
thousand requests take about a second.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.blocks import BlockCache, Shared
from perfmodel.queueing.latency import beta_of
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration, conditional_from_survival

HALVINGS = 20
LEAST = 1e-6
"""Share of an iteration below which remaining work counts as done."""
DRAWN_AT_ONCE = 2_000_000
"""Number of iterations whose gains are drawn together, which keeps memory constant."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests in the order of arrival: seconds, prompt tokens and output tokens.

    A closed loop uses `at_s` only for every client's first request. shared: the common parts of the prompts.
    gain: tokens per iteration of each request, relative to the server's.
    """

    at_s: Array
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    shared: Shared | None = None
    gain: Array | None = None

    def first(self, count: int) -> "Arrivals":
        """The first `count` requests, with their shared parts."""
        shared = self.shared and self.shared.first(count)
        return Arrivals(self.at_s[:count], self.input_tokens[:count], self.output_tokens[:count], shared)


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


def arrivals(
    lengths: Lengths, count: int, rate: float | None, burstiness: float, seed: int, start: float = 0.0
) -> Arrivals:
    """Requests with drawn lengths (uniform with the given mean and standard deviation), with
    gamma-distributed gaps at a rate.
    """
    draw = np.random.default_rng(seed)
    gaps = np.zeros(count)
    if rate is not None:
        gaps = draw.standard_gamma(burstiness, count)
        gaps *= count / rate / gaps.sum()  # exactly this rate, as far as it follows from so many requests
    return Arrivals(
        start + np.cumsum(gaps),
        _lengths(draw, lengths.input_mean, lengths.input_std, count),
        _lengths(draw, lengths.output_mean, lengths.output_std, count),
    )


def _lengths(draw: np.random.Generator, mean: float, std: float, count: int) -> NDArray[np.int64]:
    half = min(np.sqrt(3.0) * std, mean - 1.0)
    tokens = np.floor(draw.uniform(mean - half, mean + half, count) + draw.uniform(0.0, 1.0, count))
    return tokens.astype(np.int64)


def replay(
    steps: StepTimes,
    lengths: Lengths,
    limits: Limits,
    requests: Arrivals,
    clients: int | None = None,
    spread: float = 0.0,
    seed: int = 0,
    cap: int | None = None,
    around: int | None = None,
) -> ReplayedRequests:
    """Serve all requests. clients: each sends one request at the start, and the next when the previous one is
    answered.

    lengths: the lengths at which `steps` were priced; the time of a prompt is proportional to its tokens. The
    first request of each client comes at its time in `requests`. cap: the most requests at the server at
    once, like ``--max-concurrency`` of ``vllm bench serve``. A request beyond it is sent when another ends,
    and its times begin then. around: the running batch at whose draft length iterations are drawn, if it
    follows the batch; None for the longest.
    """
    return _Server(steps, lengths, limits, requests, clients, spread, seed, cap, around).run()


def iterations(steps: StepTimes, decoded: NDArray[np.int64], spread: float, seed: int) -> NDArray[np.int64]:
    """Number of decoding passes of each request: drawn gains are summed until its tokens are complete."""
    gained = steps.tokens_per_iteration
    gamma = steps.gamma
    if gained <= 1:
        return decoded
    draw = np.random.default_rng([seed, 1])
    survival = _own_survival(steps, spread, decoded.size, draw)
    needed = np.zeros(decoded.size, np.int64)
    block = max(DRAWN_AT_ONCE // int(decoded.max(initial=1)), 1)
    for at in range(0, decoded.size, block):
        part = slice(at, at + block)
        tokens = decoded[part]
        drawn = draw.random((tokens.size, int(tokens.max(initial=1))))
        gains = np.ones(drawn.shape, np.int16)
        for j in range(gamma):
            gains += drawn < survival[part, j, None]
        needed[part] = 1 + (np.cumsum(gains, 1, dtype=np.int32) < tokens[:, None]).sum(1)
    return needed


def _own_survival(steps: StepTimes, spread: float, count: int, draw: np.random.Generator) -> Array:
    """P(at least j drafted tokens are accepted), ``[request, j - 1]``, with a Beta-distributed acceptance of
    each request.

    Engines count iterations, so the draws keep 1 / E[1/Omega] at the given gain.
    """
    gained = steps.tokens_per_iteration
    gamma = steps.gamma
    alpha = float(alpha_from_tokens_per_iteration(min(gained, gamma + 1.0), float(gamma)))
    rates: Array = np.full(gamma, alpha)
    if steps.survival is not None:
        rates = conditional_from_survival(steps.survival)
    if spread == 0 or alpha == 1:
        return np.tile(np.cumprod(rates), (count, 1))
    own = draw.beta(*beta_of(alpha, spread), count)[:, None] / alpha
    low = 0.0
    high = 1.0 / alpha
    survival = np.zeros((count, gamma))
    for _ in range(HALVINGS):
        scale = (low + high) / 2.0
        survival = np.asarray(np.cumprod(np.minimum(rates * own * scale, 1.0), 1), float)
        above = 1.0 / np.mean(1.0 / (1.0 + survival.sum(1))) > gained
        low, high = (low, scale) if above else (scale, high)
    return survival


class _Server:
    """The state of a replay: times in seconds, caches in tokens."""

    def __init__(
        self,
        steps: StepTimes,
        lengths: Lengths,
        limits: Limits,
        requests: Arrivals,
        clients: int | None,
        spread: float,
        seed: int,
        cap: int | None,
        around: int | None,
    ) -> None:
        count = requests.at_s.size
        self.steps = steps
        self.limits = limits
        self.clients = clients
        table = steps.table or (steps,) * steps.decode_s.size
        self.table = (table[0], *table)  # by running batch; a prompt alone reads the weights too
        self.decode_s = [float(t.decode_s[max(n - 1, 0)]) for n, t in enumerate(self.table)]
        self.gained = [t.tokens_per_iteration for t in self.table]
        self.token_s = [float(s) / lengths.input_mean for s in (steps.prompt_s[0], *steps.prompt_s)]
        readings = {id(t.reading): t.reading for t in table if t.reading}
        self.added_s = {key: reading.of_one() for key, reading in readings.items()}
        self.last = len(self.decode_s) - 1
        self.room = lengths.context / steps.kv_share
        self.blocks = None
        self.hit = dict[int, int]()
        self.next = dict[int, int]()
        self.think_s: Sequence[float] = ()
        if (shared := requests.shared) is not None and steps.cached is not None:
            self.room = steps.cached.room_tokens
            self.blocks = BlockCache(steps.cached.law, shared)
        self.prompts = requests.input_tokens.tolist()
        self.outputs = requests.output_tokens.tolist()
        self.wanted = requests.output_tokens
        decoded = requests.output_tokens - 1
        if around is None:
            drawn = max(table, key=lambda t: t.gamma)
        else:
            drawn = table[min(around, len(table)) - 1]
        # work: iterations of an answer at one length, times the gain of one; it is the same at every length
        work = np.maximum(iterations(drawn, decoded, spread, seed), 1) * drawn.tokens_per_iteration
        if requests.gain is not None:
            work = np.maximum(work / requests.gain, drawn.tokens_per_iteration)
        self.work, self.growth = work.tolist(), (decoded / work).tolist()
        self.sent = requests.at_s.tolist()
        first = list(range(count))
        if requests.shared is not None and requests.shared.follows:
            follows = requests.shared.follows
            self.think_s = requests.shared.think_s
            self.next = {before: request for request, before in enumerate(follows) if before >= 0}
            first = [request for request in first if follows[request] < 0]
        # the first ones come at their own times, the following ones when an answer ends
        self.first_sent = first
        self.following = len(first) if clients is None else min(clients, len(first))
        # (when the server has it, request, pass before which it is not taken); sorted, so a heap
        self.coming = [(self.sent[request] + steps.own_s, request, 0) for request in first[: self.following]]
        self.cap = cap or count
        self.with_server = 0
        self.held = deque[int]()
        self.late = (np.random.default_rng([seed, 2]).random(count) < steps.passes_ahead).tolist()
        self.first = dict[int, float]()
        self.ended = dict[int, float]()
        self.time = 0.0
        self.number = 0
        self.worked = 0.0
        self.waiting: deque[tuple[int, int]] = deque()  # (request, pass from which on it may be taken)
        self.reading: deque[int] = deque()
        self.left = dict[int, int]()  # prompt tokens to read
        self.ends: list[tuple[float, int, int]] = []  # (work, request, which of its stays)
        self.stay = [0] * count
        self.young: list[int] = []
        self.running = 0
        self.cached = 0.0
        self.grows = 0.0
        self.decoding_s = 0.0
        self.preemptions = 0
        self.done = 0

    def run(self) -> ReplayedRequests:
        """Runs all requests to their last token."""
        count = len(self.prompts)
        while self.done < count:
            self._arrive()
            if not (self.running or self.reading or self.waiting):
                self.time = self.coming[0][0]
                continue
            read = self._read() if self.reading or self.waiting else []
            self._pass(read, 1 if read else self._quiet())
            self._finish()
        sent = np.array(self.sent)
        first, ended = (
            np.array([when[request] for request in range(count)]) for when in (self.first, self.ended)
        )
        outputs = self.wanted
        return ReplayedRequests(
            ttft_s=first - sent,
            tpot_s=(ended - first) / np.maximum(outputs - 1, 1),
            e2e_s=ended - sent,
            output_tokens=outputs,
            running=self.decoding_s / self.time,
            duration_s=self.time,
            preemptions=self.preemptions,
            hit_rate=None if self.blocks is None else self.blocks.hit_rate,
        )

    def _send_one(self, request: int, when: float) -> None:
        """A client sends a request. A pass that has begun no longer takes it."""
        self.sent[request] = when
        heappush(self.coming, (when + self.steps.own_s, request, self.number + (self.running > 0)))

    def _arrive(self) -> None:
        """Adds the requests that came while the last pass ran."""
        while self.coming and self.coming[0][0] <= self.time:
            _, request, least = heappop(self.coming)
            if self.with_server == self.cap:
                self.held.append(request)
                continue
            self.with_server += 1
            self.waiting.append(
                (request, max(self.number, least) + (self.late[request] if self.running else 0))
            )

    def _read(self) -> list[tuple[int, int]]:
        """(request, tokens) of the prompts that the coming pass reads."""
        drafted = self.table[min(self.running, self.last)].gamma
        budget = self.limits.max_num_batched_tokens - self.running * (drafted + 1)
        read = []
        for request in self.reading:
            if budget <= 0:
                break
            taken = min(budget, self.left[request])
            read.append((request, taken))
            budget -= taken
        while budget > 0 and self.waiting:
            request, since = self.waiting[0]
            prompt = needed = tokens = self.prompts[request]
            if self.blocks is not None:
                hit, needed = self.blocks.find(request, prompt)
                tokens -= hit
            taken_seats = self.running + len(self.reading)
            full = taken_seats >= self.limits.max_num_seqs or self.cached + needed > self.room
            if (since > self.number and self.running) or (full and taken_seats):
                break
            self.waiting.popleft()
            self.left[request] = tokens
            self.cached += needed
            if self.blocks is not None:
                self.blocks.enter(request, prompt, hit, needed, again=request in self.first)
                self.blocks.trim(self.room - self.cached)
                self.hit[request] = hit
            self.reading.append(request)
            read.append((request, min(budget, tokens)))
            budget -= min(budget, tokens)
        return read

    def _quiet(self) -> int:
        """Number of passes until an event other than decoding."""
        n = min(self.running, self.last)
        step = self.decode_s[n]
        gained = self.gained[n]
        passes = math.ceil((self.ends[0][0] - self.worked) / gained - LEAST)
        if self.coming:
            passes = min(passes, int((self.coming[0][0] - self.time) / step) + 1)
        if self.waiting and self.waiting[0][1] > self.number:
            passes = min(passes, self.waiting[0][1] - self.number)
        passes = min(passes, int((self.room - self.cached) / (self.grows * gained)) + 1)
        return max(passes, 1)

    def _pass(self, read: list[tuple[int, int]], passes: int) -> None:
        """Runs a number of passes, the first of which reads prompts."""
        n = min(self.running, self.last)
        seconds = passes * self.decode_s[n]
        if read:
            seconds += self._added_s(n, read)
        self.decoding_s += self.running * seconds
        self.time += seconds
        self.number += passes
        self.worked += passes * self.gained[n]
        self.cached += passes * self.gained[n] * self.grows
        for request, tokens in read:
            self.left[request] -= tokens
            if not self.left[request]:
                self._start(request)

    def _added_s(self, n: int, read: list[tuple[int, int]]) -> float:
        """Seconds that prompts add to a pass."""
        tokens = sum(tokens for _, tokens in read)
        reading = self.table[n].reading
        if reading is None:
            return tokens * self.token_s[n]
        added = self.added_s[id(reading)](max(n, 1) * (self.table[n].gamma + 1), tokens)
        if self.blocks is not None:
            added += reading.cached_s * sum(tokens * self.hit[request] for request, tokens in read)
        return added

    def _start(self, request: int) -> None:
        """A prompt has been read. Its first token is out (unless the request was preempted before), and it
        decodes.
        """
        self.reading.popleft()
        del self.left[request]
        self.first.setdefault(request, self.time)
        if self.outputs[request] == 1:
            return self._leave(request)
        heappush(self.ends, (self.worked + self.work[request], request, self.stay[request]))
        self.young.append(request)
        self.running += 1
        self.grows += self.growth[request]

    def _finish(self) -> None:
        """Requests with all their tokens leave. The youngest ones go back to the queue while caches outgrow
        the room.
        """
        while self.ends and self.ends[0][0] <= self.worked + LEAST:
            _, request, stay = heappop(self.ends)
            if stay == self.stay[request]:
                self.running -= 1
                self.grows -= self.growth[request]
                self.stay[request] += 1
                self._leave(request)
        while self.ends and self.ends[0][2] != self.stay[self.ends[0][1]]:
            heappop(self.ends)
        while self.cached > self.room and self.running > 1:
            self._preempt()
        if self.blocks is not None:
            self.blocks.trim(self.room - self.cached)

    def _leave(self, request: int) -> None:
        self.ended[request] = self.time
        decoded = self.outputs[request] - 1
        if self.blocks is None:
            self.cached -= self.prompts[request] + decoded
        else:
            self.cached -= self.blocks.leave(request, decoded)
        self.done += 1
        self.with_server -= 1
        if self.held:
            self._send_one(self.held.popleft(), self.time)
        if (later := self.next.get(request)) is not None:
            self._send_one(later, max(self.time + self.think_s[later], self.sent[later]))
        elif self.clients is not None and self.following < len(self.first_sent):
            self._send_one(self.first_sent[self.following], self.time)
            self.following += 1

    def _preempt(self) -> None:
        decoding = {request: end for end, request, stay in self.ends if stay == self.stay[request]}
        while self.young[-1] not in decoding:
            self.young.pop()
        request = self.young.pop()
        left = decoding[request] - self.worked
        gone = self.work[request] - left
        tokens = self.prompts[request] + round(gone * self.growth[request])
        if self.blocks is None:
            self.cached -= self.prompts[request] + gone * self.growth[request]
        else:
            self.cached -= self.blocks.leave(request, gone * self.growth[request], keep=False)
        self.grows -= self.growth[request]
        self.running -= 1
        self.stay[request] += 1
        self.preemptions += 1
        self.prompts[request], self.work[request] = tokens, left
        self.outputs[request] -= round(gone * self.growth[request])
        self.waiting.appendleft((request, self.number))
