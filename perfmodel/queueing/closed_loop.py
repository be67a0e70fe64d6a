"""The closed form of a closed loop, in which each client waits for its answer. Batch, throughput and
latencies follow from the cycle of one client.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.client_cycle import FEWER_CLIENTS, client_cycle, share_of_batches
from perfmodel.queueing.load import Limits, Load
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.per_token import per_token
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.served_load import ServedLoad, seen_by_requests
from perfmodel.queueing.steps import StepTimes

OF_ROOM = 0.1
"""Standard deviation of a client's wait for room in the cache, divided by its mean. The value is assumed."""
REGULAR = 1.0 / 6.0
"""Variance of the number of prompts that are read while a client decodes, divided by the mean. Every other
client sends about one prompt in this time.
"""


def closed_loop(steps: StepTimes, load: Load, limits: Limits, spread: float, clients: Array) -> ServedLoad:
    """Batch, throughput and latencies of a server for each number of clients.

    - spread: standard deviation of the acceptance between requests.
    """
    lengths = load.lengths
    saturation_rate = capacity(steps, lengths, limits).requests_per_s
    there = at_server(steps, load, limits, clients)
    clients = there.clients
    seated = np.minimum(clients, float(steps.seats))
    cycle = client_cycle(steps, lengths, limits, seated, saturation_rate)
    cycle_s = seated / cycle.requests_per_s
    # if clients wait for a seat, it does not stay free until the next one sends
    served = np.minimum(clients / cycle_s, seated / (cycle_s - steps.own_s))
    served = np.minimum(served, saturation_rate)
    room_s = clients / served - cycle.decoding_s - cycle.ttft.mean  # Little's law
    ttft = _with_room(cycle.ttft, room_s)
    served = np.minimum(served, there.sent_per_s)
    running = served * cycle.decoding_s
    share = share_of_batches(steps, seated, running / seated)
    tpot = per_token(
        steps,
        lengths,
        cycle.decoding_s / lengths.decoded,
        Moments(cycle.others, REGULAR * cycle.others),
        steps.prompt_at(1.0 + cycle.others),
        Moments(1.0),
        spread,
        seen_by_requests(steps, share),
    )
    none = np.zeros(clients.shape, bool)
    return ServedLoad(
        lengths=lengths,
        running=running,
        requests_per_s=served,
        saturated=none,
        ttft=ttft,
        tpot=tpot,
        saturation_rate=saturation_rate,
        share=share,
        metastable=none,
    )


def _with_room(ttft: Moments, room_s: Array) -> Moments:
    """The time to the first token, including the wait for a seat or for room in the cache. A negative
    `room_s` makes this time shorter.
    """
    sooner = replace(ttft, mean=ttft.mean + np.minimum(room_s, 0.0))
    waits = np.maximum(room_s, 0.0)
    return sooner + Moments(waits, np.square(OF_ROOM * waits))


class ClientsAtServer(NamedTuple):
    """The clients at a server whose clients think between an answer and the next request.

    - clients: mean number of clients at the server while a given client is there, including that client.
    - sent_per_s: largest rate at which all clients together send requests.
    """

    clients: Array
    sent_per_s: Array


def at_server(steps: StepTimes, load: Load, limits: Limits, clients: Array) -> ClientsAtServer:
    """Mean number of clients at the server for each total number of clients: 1 + (clients - 1) p.

    - p: share of time that each of the other clients spends at the server. In the rest of the time the client
      thinks (arrival theorem).
    """
    if not (load.think_s and steps.seats):
        return ClientsAtServer(clients, np.full(1, np.inf))
    tried = np.geomspace(1.0, float(clients.max()), FEWER_CLIENTS)
    saturation_rate = capacity(steps, load.lengths, limits).requests_per_s
    seated = np.minimum(tried, float(steps.seats))
    cycle_s = tried / client_cycle(steps, load.lengths, limits, seated, saturation_rate).requests_per_s
    of_all = 1.0 + (tried - 1.0) * (1.0 + load.think_s / cycle_s)
    sent = np.maximum.accumulate(of_all / (cycle_s + load.think_s))
    return ClientsAtServer(np.interp(clients, of_all, tried), np.interp(clients, of_all, sent))
