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

    - clients: number of clients. Each client sends its next request when the previous request is answered. It
      is None if requests arrive at the times in `requests`.
    - lengths: the request lengths for which `steps` was computed. The first request of each client arrives at
      its time in `requests`.
    - cap: the largest number of requests at the server, like ``--max-concurrency`` of ``vllm bench serve``. A
      request beyond this number is sent when another request ends. Its latencies count from the time when it
      is sent.
    - around: a running batch. If the draft length depends on the running batch, iterations are drawn with the
      draft length of this batch. None means the longest draft.
    """
    queue = _requests(steps, requests, spread, seed, around)
    senders = Senders(queue, requests.shared, steps.own_s, clients, cap)
    cache = _cache(steps, lengths, requests)
    first = steps.prefill is not None and steps.prefill.order is PassOrder.PROMPTS_FIRST
    drafts = any(t.gamma for t in steps.table or (steps,))
    limits = replace(limits, max_num_seqs=limits.seats(drafts))
    most = clients or cap or len(queue)
    groups = None
    if steps.prefill is not None and steps.prefill.groups > 1:
        groups = Groups(steps.prefill.groups, limits.balance_passes)
    server = Server(pass_times(steps, lengths, most), limits, cache, queue, senders, first, groups)
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
        work = np.maximum(work / arrivals.gain, gain)
    late = np.random.default_rng([seed, 2]).random(decoded.size) < steps.passes_ahead
    columns = (arrivals.input_tokens, arrivals.output_tokens, work, decoded / work, arrivals.at_s, late)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [QueuedRequest(number, *row) for number, row in enumerate(rows)]


def _cache(steps: StepTimes, lengths: Lengths, requests: Arrivals) -> Cache:
    if requests.shared is not None and steps.cached is not None:
        return PrefixCache(steps.cached.room_tokens, steps.cached.law, requests.shared)
    return PrivateCache(lengths.context / steps.kv_share)
