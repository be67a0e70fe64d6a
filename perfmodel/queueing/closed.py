"""The server in closed form: running batch, throughput and latencies at any number of loads at once.

Open loop: the chain of `queueing.occupancy`. Closed loop: C clients. Each decodes in a share f of the passes,
and meets (C - 1) f others that decode, with their prompts, so that

    s = T(1 + (C - 1) f) + (C - 1) f A / (D - 1) tau
    f = (D - 1) / A / ((D - 1) / A + passes of the TTFT)

by the arrival theorem (Reiser and Lavenberg 1980): a client sees the system of C - 1.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.latency import (
    FULL,
    as_passes_end,
    at_any_time,
    backlog,
    first_token,
    missed_s,
    own_passes_of,
    per_token,
)
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.moments import Moments, mixed, shares_of, sometimes
from perfmodel.queueing.occupancy import TINY, Occupancy, capacity, occupancy, prompts_per_pass
from perfmodel.queueing.steps import StepTimes

BLOCK = 512
"""Number of loads that are computed at once, which keeps memory constant."""
HALVINGS = 16
EXACT_BATCHES = 8
"""Every batch up to this one is a node."""
FURTHER = 28
"""Number of nodes beyond it."""
BEYOND_ALL = 4
"""Batches beyond the number of clients, of which the last has less than 1e-40 of the time."""
FEWER_CLIENTS = 16
"""Number of smaller client counts whose throughput gives a lower bound."""
OF_ROOM = 0.1
"""Assumed: standard deviation over mean of a client's wait for room."""
OVERFLOWS = 1e-4
"""Share of time with all seats taken above which one in ten thousand requests waits for a seat."""
REGULAR = 1.0 / 6.0
"""Variance over mean of the number of prompts that a client meets. Every other client sends about once while
it decodes.
"""


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """Results over ``[load]``; times in seconds. saturated: more requests arrive than are served, and the
    TTFT is infinite.

    running: mean number of requests that decode. share: share of time with n requests, over ``[load, n]``.
    metastable: at this rate a larger batch than the reported one would also persist.
    """

    lengths: Lengths
    running: Array
    requests_per_s: Array
    saturated: NDArray[np.bool_]
    ttft: Moments
    tpot: Moments
    saturation_rate: float
    share: Array
    metastable: NDArray[np.bool_]

    def gained(self, steps: StepTimes) -> Array:
        """Tokens per iteration of a request, ``[load]``. With a table they depend on the batches in which it
        decodes.
        """
        return _as_seen(steps, self.share) @ steps.gains

    @property
    def e2e(self) -> Moments:
        """Time to the last token."""
        return whole_answer(self.lengths, self.ttft, self.tpot)


def whole_answer(lengths: Lengths, ttft: Moments, tpot: Moments) -> Moments:
    """Time to the last token. The part after the first token is a product of independent numbers: tokens, and
    the time of each.
    """
    mean = lengths.decoded
    variance = lengths.output_std**2
    both = mean**2 * tpot.variance + variance * (tpot.mean**2 + tpot.variance)
    return ttft + Moments(mean * tpot.mean, both, mean**3 * tpot.third)


def serve(steps: StepTimes, load: Load, limits: Limits, spread: float = 0.0) -> ServedLoad:
    """Computes every load at one draft length. spread: standard deviation of acceptance between requests."""
    asked = load.rate if load.clients is None else load.clients
    loads = np.atleast_1d(np.asarray(asked, float))
    answer = _open if load.clients is None else _closed
    blocks = (loads[start : start + BLOCK] for start in range(0, loads.size, BLOCK))
    return _joined([answer(steps, load, limits, spread, block) for block in blocks])


def mean_tpot_s(steps: StepTimes, load: Load, limits: Limits) -> Array:
    """The mean of `ServedLoad.tpot` at every load, without the other figures."""
    lengths = load.lengths
    most, full_batch = capacity(steps, lengths, limits)
    if load.clients is not None:
        asked = np.atleast_1d(np.asarray(load.clients, float))
        clients, _ = at_server(steps, load, limits, asked)
        clients = np.minimum(clients, float(steps.seats))
        decoding, _, _, _ = _cycle_within(steps, lengths, limits, clients, most)
        return decoding / lengths.decoded
    rate = np.atleast_1d(np.asarray(load.rate, float))
    o = occupancy(steps, lengths, rate, most, load.burstiness)
    served = np.minimum(rate, most)
    return _running(steps, o, served, most, full_batch) / served / lengths.decoded


def _open(steps: StepTimes, load: Load, limits: Limits, spread: float, rate: Array) -> ServedLoad:
    lengths = load.lengths
    most, full_batch = capacity(steps, lengths, limits)
    o = occupancy(steps, lengths, rate, most, load.burstiness)
    served = np.minimum(rate, most)
    # fewer batches, close together where they are small, and the time at each
    n = _nodes(o.share.shape[1])
    share = _at_nodes(o.share, n)
    burst = (1.0 + 1.0 / load.burstiness) / 2.0  # Allen and Cunneen: waiting grows with the variance of gaps
    per_pass = prompts_per_pass(steps, lengths, limits, n)
    bunched = max(burst, 1.0 / load.burstiness)  # prompts of a burst meet each other
    meeting = at_any_time(steps, lengths, n, served, bunched, share, per_pass)
    ttft = first_token(steps, lengths, n, share, per_pass, meeting)
    full, waiting = o.queue()
    room = waiting / served * burst
    chance = np.maximum(full, TINY)
    ttft = ttft + sometimes(chance, room / chance)
    running = _running(steps, o, served, most, full_batch)
    mean = running / served / lengths.decoded
    busy = _as_seen(steps, o.share)
    typical = np.sum(busy * o.pass_s, 1)
    batch = mixed(busy, Moments(o.pass_s / typical[:, None]))
    met = served * mean * lengths.decoded
    prompt = steps.prompt_at(np.maximum(running, 1.0))
    bunch = burst / (1.0 - np.minimum(served * prompt, FULL)) ** 2
    prompts = Moments(met, met * bunch, met)
    tpot = per_token(steps, lengths, mean, prompts, prompt, batch, spread, busy)
    return ServedLoad(lengths, running, served, o.saturated, ttft, tpot, most, o.share, o.metastable)


def _running(steps: StepTimes, o: Occupancy, rate: Array, most: float, full_batch: int) -> Array:
    """Mean number of requests with a first token: those that decode, and those that wait meanwhile for
    others' prompts.

    most, full_batch: the saturation rate, and the number of requests of a saturated server. While a prompt is
    read, others arrive; they are read before decoding continues.
    """
    prompt = steps.prompt_at(np.maximum(o.running, 1.0))
    load = np.minimum(rate * prompt, FULL)
    own_pass = prompt * (1.0 + load**2 / (1.0 - load**2))  # beyond decoding, which the chain has
    queued = rate * load * own_pass / (1.0 - load)
    slowest = full_batch * rate / most  # no token takes longer than when saturated
    below = np.minimum(o.running + queued, slowest)
    fills = o.metastable & (o.share[:, -1] > OVERFLOWS)  # and then stays full
    return np.where(o.saturated, float(full_batch), np.where(fills, slowest, below))


@cache
def _nodes(states: int) -> Array:
    """Some batches of 0 ... states - 1, with both ends."""
    further = np.geomspace(EXACT_BATCHES, states - 1, FURTHER)
    n = np.unique(np.round(np.concatenate([np.arange(EXACT_BATCHES), further])))
    return np.asarray(n[n < states])


def _at_nodes(share: Array, nodes: Array) -> Array:
    """Weights of nodes with which sums over all n, ``[load, n]``, are linear interpolations between nodes."""
    batches = np.arange(float(share.shape[1]))
    place = np.interp(batches, nodes, np.arange(nodes.size))
    beyond = share * (place - np.floor(place))
    starts = nodes.astype(np.int64)
    # sums of neighbours, not a product of matrices, which wakes all threads of the library
    weights = np.add.reduceat(share - beyond, starts, 1)
    weights[:, 1:] += np.add.reduceat(beyond, starts, 1)[:, :-1]
    return np.asarray(weights)


def _closed(steps: StepTimes, load: Load, limits: Limits, spread: float, clients: Array) -> ServedLoad:
    lengths = load.lengths
    most, _ = capacity(steps, lengths, limits)
    clients, sent = at_server(steps, load, limits, clients)
    inside = np.minimum(clients, float(steps.seats))
    decoding, ttft, others, served = _cycle_within(steps, lengths, limits, inside, most)
    cycle = inside / served
    # if clients wait for a seat, it does not stay free until the next one sends
    by_cycle = np.minimum(clients / cycle, inside / (cycle - steps.own_s))
    served = np.minimum(by_cycle, most)
    room = clients / served - decoding - ttft.mean
    ttft = replace(ttft, mean=ttft.mean + np.minimum(room, 0.0))
    room = np.maximum(room, 0.0)
    ttft = ttft + Moments(room, np.square(OF_ROOM * room))
    mean = decoding / lengths.decoded
    prompts = Moments(others, REGULAR * others)
    prompt = steps.prompt_at(1.0 + others)
    no = np.zeros(clients.shape, bool)
    served = np.minimum(served, sent)
    running = served * decoding
    decode = _share_of_batches(steps, inside, running / inside)
    seen = _as_seen(steps, decode)
    tpot = per_token(steps, lengths, mean, prompts, prompt, Moments(1.0), spread, seen)
    return ServedLoad(lengths, running, served, no, ttft, tpot, most, decode, no)


def _as_seen(steps: StepTimes, share: Array) -> Array:
    """Shares of time ``[load, n]`` from n = 1 as a request sees them, weighted by the number of requests."""
    busy = share[:, 1:] * steps.batches
    return busy / busy.sum(1, keepdims=True)


def _share_of_batches(steps: StepTimes, clients: Array, share: Array) -> Array:
    """Probability ``[load, n]`` of n decoding clients, n = 0 ... seats, of which each decodes for a share of
    the time.
    """
    seats = steps.decode_s.size
    batches = steps.batches[: math.ceil(clients.max()) + BEYOND_ALL]
    left = np.maximum(clients[:, None] + 1.0 - batches, TINY) / batches
    odds = np.maximum(share, TINY) / np.maximum(1.0 - share, TINY)
    ratio = left * odds[:, None]
    logs = np.cumsum(np.log(ratio), 1)
    of_batches = np.zeros((clients.size, seats + 1))
    of_batches[:, : batches.size + 1] = shares_of(np.concatenate([np.zeros_like(logs[:, :1]), logs], 1))
    return of_batches


def at_server(steps: StepTimes, load: Load, limits: Limits, clients: Array) -> tuple[Array, Array]:
    """Clients at the server as one of them sees it, itself among them: 1 + (clients - 1) p; and the most
    requests per second that all of them send.

    p: share of its time that a client is there, and does not think (arrival theorem).
    """
    if not (load.think_s and steps.seats):
        return clients, np.full(1, np.inf)
    tried = np.geomspace(1.0, float(clients.max()), FEWER_CLIENTS)
    most, _ = capacity(steps, load.lengths, limits)
    inside = np.minimum(tried, float(steps.seats))
    cycle = tried / _cycle_within(steps, load.lengths, limits, inside, most)[3]
    of_all = 1.0 + (tried - 1.0) * (1.0 + load.think_s / cycle)
    sent = np.maximum.accumulate(of_all / (cycle + load.think_s))
    return np.interp(clients, of_all, tried), np.interp(clients, of_all, sent)


def _cycle_within(
    steps: StepTimes, lengths: Lengths, limits: Limits, inside: Array, most: float
) -> tuple[Array, Moments, Array, Array]:
    """`_cycle`, and requests per second: at least the rate of fewer clients (a table may be slower among
    more), at most the capacity (`most`).

    By Little's law a client's cycle lasts clients / rate. If that is shorter than `_cycle`, decoding is
    shorter too, but at one draft length never shorter than with fewer clients.
    """
    fewer = np.geomspace(1.0, float(inside.max()), FEWER_CLIENTS)
    tried, places = np.unique(np.concatenate([fewer, inside]), return_inverse=True)
    decoding, ttft, others = _cycle(steps, lengths, limits, tried)
    least = np.ones_like(tried)
    changes = len({t.gamma for t in steps.table}) > 1
    if changes:  # serves less where it changes to a slower length
        request_s = steps.iterations(lengths) * steps.decode_s / steps.batches + steps.prompt_s
        each = 1.0 / request_s
        least = np.interp(1.0 + others, steps.batches, each / np.maximum.accumulate(each))
    rising = np.asarray if changes else np.maximum.accumulate
    decoding = rising(decoding)
    rates = tried / (decoding + ttft.mean)
    never_less = least * np.maximum.accumulate(rates)
    rates = np.minimum(np.maximum(rates, never_less), most)
    shorter = np.minimum(1.0, tried / rates / (decoding + ttft.mean))
    decoding = rising(decoding * shorter)
    asked = places[fewer.size :]
    times = ttft.mean, ttft.variance, ttft.third, ttft.least
    ttft_there = Moments(*(np.broadcast_to(moment, tried.shape)[asked] for moment in times))
    return decoding[asked], ttft_there, others[asked], rates[asked]


def _decoding_share(steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array) -> Array:
    """The share of passes in which a client decodes, by bisection."""
    decoding = steps.iterations(lengths)
    low = np.zeros_like(clients)
    high = np.ones_like(clients)
    for _ in range(HALVINGS):
        share = (low + high) / 2.0
        others = (clients - 1.0) * share
        per_pass = prompts_per_pass(steps, lengths, limits, others)
        alone = (1.0 - share) ** (clients - 1.0)
        ends = others / decoding
        queued = ends / 2.0 * backlog(ends, per_pass) / np.maximum(np.floor(per_pass), 1.0) ** 2
        queued = np.minimum(queued, (clients - 1.0 - others) / per_pass)  # at most all that do not decode
        decode = steps.decode_at(1.0 + others)
        prompt = steps.prompt_at(1.0 + others)
        pass_s = decode + ends * prompt
        missed = missed_s(steps, decode, prompt, ends)
        waited = (1.0 - alone) * ((steps.own_s + missed) / pass_s + steps.passes_ahead)
        own_passes_s = own_passes_of(steps, lengths, per_pass, others)
        over = share * (decoding + waited + queued + own_passes_s) > decoding
        high = np.where(over, share, high)
        low = np.where(over, low, share)
    return (low + high) / 2.0


def _cycle(
    steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array
) -> tuple[Array, Moments, Array]:
    """Seconds for which a client decodes, its time to the first token, and the number of others that decode
    meanwhile.
    """
    share = _decoding_share(steps, lengths, limits, clients)
    others = (clients - 1.0) * share
    batch = 1.0 + others
    # others that end in a pass, each followed by a prompt
    ends = others / steps.iterations(lengths)
    pass_s = steps.decode_at(batch) + ends * steps.prompt_at(batch)
    if steps.table:
        seen = _as_seen(steps, _share_of_batches(steps, clients, share))
        pass_s = seen @ steps.decode_s + ends * steps.prompt_at(batch)
    decoding = steps.iterations(lengths) * pass_s
    alone = (1.0 - share) ** (clients - 1.0)  # no one else decodes
    seen = np.stack([alone, 1.0 - alone], -1)
    around = np.stack([np.zeros_like(others), np.maximum(others, 1.0)], -1)
    per_pass = prompts_per_pass(steps, lengths, limits, around)
    meeting = as_passes_end(steps, around, ends, per_pass, clients - 1.0 - others)
    return decoding, first_token(steps, lengths, around, seen, per_pass, meeting), others


def _joined(parts: list[ServedLoad]) -> ServedLoad:
    def whole(values: list[Any]) -> Any:
        if isinstance(values[0], Moments):
            each = (np.broadcast_arrays(v.mean, v.variance, v.third, v.least) for v in values)
            return Moments(*map(np.concatenate, zip(*each, strict=True)))
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return values[0]

    return ServedLoad(*(whole([getattr(part, f.name) for part in parts]) for f in fields(ServedLoad)))
