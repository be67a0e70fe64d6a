"""A discrete-event model of a continuous-batching server, pass by pass. The replay checks the results of the
closed form.

Requests are served in the order of arrival. The number of iterations of each request is drawn at random
before the simulation, token by token, from the acceptance of the request. `Server` simulates the passes.
"""

from dataclasses import replace

import numpy as np

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.cache import Cache, PrefixCache, PrivateCache
from perfmodel.queueing.groups import Groups
from perfmodel.queueing.iterations import iterations
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.pass_times import pass_times
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.queueing.request import QueuedRequest
from perfmodel.queueing.senders import Senders
from perfmodel.queueing.server import Server
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.served_requests import PassOrder


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
    """Simulates all requests, and returns their times.

    - lengths: the request lengths for which `steps` was computed.
    - limits: the limits of the server.
    - clients: number of clients. The first request of each client arrives at its time in `requests`. Each
      client sends its next request when the previous request is answered. It is None if all requests arrive
      at the times in `requests`.
    - spread: standard deviation of the acceptance between requests.
    - seed: seed of the random iterations.
    - cap: the largest number of requests at the server, like ``--max-concurrency`` of ``vllm bench serve``. A
      request beyond this number is sent when another request ends. Its latencies count from the time when it
      is sent.
    - around: a running batch. If the draft length depends on the running batch, iterations are drawn with the
      draft length of this batch. None means the longest draft.
    """
    queue = _requests(steps, requests, spread, seed, around)
    senders = Senders(queue, requests.shared, steps.own_s, clients, cap)
    cache = _cache(steps, lengths, requests)
    prompts_first = steps.prefill is not None and steps.prefill.order is PassOrder.PROMPTS_FIRST
    drafts = any(t.gamma for t in steps.table or (steps,))
    limits = replace(limits, max_num_seqs=limits.seats(drafts))
    most_at_once = clients or cap or len(queue)
    groups = None
    if steps.prefill is not None and steps.prefill.groups > 1:
        groups = Groups(steps.prefill.groups, limits.balance_passes)
    passes = pass_times(steps, lengths, most_at_once)
    server = Server(passes, limits, cache, queue, senders, prompts_first, groups)
    return server.run(requests.output_tokens)


def _requests(
    steps: StepTimes, arrivals: Arrivals, spread: float, seed: int, around: int | None
) -> list[QueuedRequest]:
    """The requests with their work. The work of a request is the number of its iterations at one draft
    length, times the gain of one iteration. This product is the same at every length.
    """
    table = steps.table or (steps,)
    drawn = max(table, key=lambda t: t.gamma) if around is None else table[min(around, len(table)) - 1]
    gain = drawn.tokens_per_iteration
    decoded = arrivals.output_tokens - 1
    work = np.maximum(iterations(drawn, decoded, spread, seed), 1) * gain
    if arrivals.gain is not None:
        work = np.maximum(work / arrivals.gain, gain)  # at least one iteration
    late = np.random.default_rng([seed, 2]).random(decoded.size) < steps.passes_ahead
    columns = (arrivals.input_tokens, arrivals.output_tokens, work, decoded / work, arrivals.at_s, late)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [QueuedRequest(number, *row) for number, row in enumerate(rows)]


def _cache(steps: StepTimes, lengths: Lengths, requests: Arrivals) -> Cache:
    """The cache of the server. Requests share cached blocks only if their common parts are known, and the
    server has a prefix cache.
    """
    if requests.shared is not None and steps.cached is not None:
        return PrefixCache(steps.cached.room_tokens, steps.cached.law, requests.shared)
    return PrivateCache(lengths.context / steps.kv_share)
