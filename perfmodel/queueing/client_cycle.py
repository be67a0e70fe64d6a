"""The cycle of one of C clients. Each client waits for its answer. A cycle is the time to the first token
plus the decoding time.

A client decodes in a share f of the passes. At the same time (C - 1) f other clients decode on average. Their
prompts take time in the same passes:

    s = T(1 + (C - 1) f) + (C - 1) f A / (D - 1) tau

    f = (D - 1) / A / ((D - 1) / A + passes of the TTFT)

These equations follow from the arrival theorem (Reiser and Lavenberg 1980). It says that a client that
arrives sees the system in the steady state of C - 1 clients.

- s: duration of a pass in seconds.
- T(n): seconds of decoding in a pass with n decoding clients.
- tau: seconds that a prompt adds to a pass.
- A: tokens per iteration.
- D: output tokens.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.chain import TINY
from perfmodel.queueing.first_token import as_passes_end, backlog, first_token, missed_s, own_passes_of
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.moments import Moments, shares_of
from perfmodel.queueing.saturation import prompts_per_pass
from perfmodel.queueing.served_load import seen_by_requests
from perfmodel.queueing.steps import StepTimes

HALVINGS = 16
"""Number of bisection steps for the share of passes in which a client decodes."""
FEWER_CLIENTS = 16
"""Number of smaller client counts whose throughput gives a lower bound."""


@dataclass(frozen=True, slots=True)
class ClientCycle:
    """The cycle of a client for several numbers of clients. All fields are over ``[number of clients]``, with
    times in seconds.

    - decoding_s: time from the first to the last token.
    - ttft: time to the first token. It does not include the wait for a seat or for cache memory.
    - others: mean number of other clients that decode at the same time.
    - requests_per_s: requests per second of all clients together.
    """

    decoding_s: Array
    ttft: Moments
    others: Array
    requests_per_s: Array

    @property
    def seconds(self) -> Array:
        """Time of a whole cycle: the time to the first token plus the decoding time."""
        return self.decoding_s + self.ttft.mean

    def at(self, places: NDArray[np.int64]) -> "ClientCycle":
        """The cycles at the given indices into the numbers of clients."""
        times = (self.ttft.mean, self.ttft.variance, self.ttft.third, self.ttft.least)
        moments = (np.broadcast_to(moment, self.others.shape)[places] for moment in times)
        return ClientCycle(
            self.decoding_s[places], Moments(*moments), self.others[places], self.requests_per_s[places]
        )


def client_cycle(
    steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array, saturation_rate: float
) -> ClientCycle:
    """The cycle for each number of clients, if every client has a seat.

    The request rate is at most the saturation rate. It does not fall with more clients, except where a table
    of draft lengths changes to a slower length. By Little's law a cycle lasts clients / rate. If this time is
    shorter than the cycle from the equations, the decoding time is multiplied by the ratio of the two. With a
    single draft length, decoding never takes less time than with fewer clients.
    """
    fewer = np.geomspace(1.0, float(clients.max()), FEWER_CLIENTS)
    tried, places = np.unique(np.concatenate([fewer, clients]), return_inverse=True)
    cycle = _undisturbed(steps, lengths, limits, tried)
    changes_length = len({t.gamma for t in steps.table}) > 1
    never_faster = np.asarray if changes_length else np.maximum.accumulate
    cycle = replace(cycle, decoding_s=never_faster(cycle.decoding_s))
    rates = tried / cycle.seconds
    least = np.maximum.accumulate(rates)
    if changes_length:
        least = least * _kept_after_a_change(steps, lengths, cycle.others)
    rates = np.minimum(np.maximum(rates, least), saturation_rate)
    shorter = np.minimum(1.0, tried / rates / cycle.seconds)
    cycle = replace(cycle, decoding_s=never_faster(cycle.decoding_s * shorter), requests_per_s=rates)
    return cycle.at(places[fewer.size :])


def _kept_after_a_change(steps: StepTimes, lengths: Lengths, others: Array) -> Array:
    """The share of the highest rate of all smaller batches that is left at this batch, over ``[number of
    clients]``. It is below 1 where the table changes to a slower draft length.
    """
    request_s = steps.iterations(lengths) * steps.decode_s / steps.batches + steps.prompt_s
    rate = 1.0 / request_s
    return np.interp(1.0 + others, steps.batches, rate / np.maximum.accumulate(rate))


def _undisturbed(steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array) -> ClientCycle:
    """The cycle of the equations above, without the bounds on its rate."""
    share = _decoding_share(steps, lengths, limits, clients)
    others = (clients - 1.0) * share
    batch = 1.0 + others
    ends = others / steps.iterations(lengths)  # clients that end in a pass; each sends a new prompt
    decode_s = steps.decode_at(batch)
    if steps.table:
        decode_s = seen_by_requests(steps, share_of_batches(steps, clients, share)) @ steps.decode_s
    pass_s = decode_s + ends * steps.prompt_at(batch)
    decoding_s = steps.iterations(lengths) * pass_s
    # a client meets either no other decoding client, or their mean number
    alone = (1.0 - share) ** (clients - 1.0)
    chances = np.stack([alone, 1.0 - alone], -1)
    met = np.stack([np.zeros_like(others), np.maximum(others, 1.0)], -1)
    per_pass = prompts_per_pass(steps, lengths, limits, met)
    meeting = as_passes_end(steps, met, ends, per_pass, clients - 1.0 - others)
    ttft = first_token(steps, lengths, met, chances, per_pass, meeting)
    return ClientCycle(decoding_s, ttft, others, clients / (decoding_s + ttft.mean))


def _decoding_share(steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array) -> Array:
    """The share of passes in which a client decodes, by bisection."""
    iterations = steps.iterations(lengths)
    low = np.zeros_like(clients)
    high = np.ones_like(clients)
    for _ in range(HALVINGS):
        share = (low + high) / 2.0
        over = share * (iterations + _ttft_passes(steps, lengths, limits, clients, share)) > iterations
        high = np.where(over, share, high)
        low = np.where(over, low, share)
    return (low + high) / 2.0


def _ttft_passes(steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array, share: Array) -> Array:
    """Number of passes until a client's first token, if each client decodes in the given share of the passes.
    It counts the passes that the client misses, those that read earlier prompts, and those that read its own
    prompt.
    """
    others = (clients - 1.0) * share
    per_pass = prompts_per_pass(steps, lengths, limits, others)
    alone = (1.0 - share) ** (clients - 1.0)
    ends = others / steps.iterations(lengths)
    queued = ends / 2.0 * backlog(ends, per_pass) / np.maximum(np.floor(per_pass), 1.0) ** 2
    queued = np.minimum(queued, (clients - 1.0 - others) / per_pass)  # at most all clients that do not decode
    decode_s = steps.decode_at(1.0 + others)
    prompt_s = steps.prompt_at(1.0 + others)
    pass_s = decode_s + ends * prompt_s
    missed = missed_s(steps, decode_s, prompt_s, ends)
    waited = (1.0 - alone) * ((steps.own_s + missed) / pass_s + steps.passes_ahead)
    return waited + queued + own_passes_of(steps, lengths, per_pass, others)


def share_of_batches(steps: StepTimes, clients: Array, share: Array) -> Array:
    """Probability that n clients decode at the same time, over ``[load, n]`` for n = 0 ... seats.

    - share: share of the time in which a client decodes.
    """
    seats = steps.decode_s.size
    batches = steps.batches[: math.ceil(clients.max())]
    left = np.maximum(clients[:, None] + 1.0 - batches, TINY) / batches
    odds = np.maximum(share, TINY) / np.maximum(1.0 - share, TINY)
    ratio = left * odds[:, None]
    logs = np.cumsum(np.log(ratio), 1)
    of_batches = np.zeros((clients.size, seats + 1))
    of_batches[:, : batches.size + 1] = shares_of(np.concatenate([np.zeros_like(logs[:, :1]), logs], 1))
    return of_batches
