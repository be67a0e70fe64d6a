"""Closed-form results of a server: running batch, throughput and latencies for many loads at once."""

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.client_cycle import client_cycle
from perfmodel.queueing.closed_loop import at_server, closed_loop
from perfmodel.queueing.load import Limits, Load
from perfmodel.queueing.occupancy import occupancy
from perfmodel.queueing.open_loop import open_loop, running_requests
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.served_load import ServedLoad, joined
from perfmodel.queueing.steps import StepTimes

BLOCK = 512
"""Number of loads that are computed at once. The limit keeps the memory use constant."""


def serve(steps: StepTimes, load: Load, limits: Limits, spread: float = 0.0) -> ServedLoad:
    """Batch, throughput and latencies of a server at every load. `steps` has its pass times.

    - spread: standard deviation of the acceptance between requests.
    """
    rates_or_clients = load.rate if load.clients is None else load.clients
    loads = np.atleast_1d(np.asarray(rates_or_clients, float))
    answer = open_loop if load.clients is None else closed_loop
    blocks = (loads[start : start + BLOCK] for start in range(0, loads.size, BLOCK))
    return joined([answer(steps, load, limits, spread, block) for block in blocks])


def mean_tpot_s(steps: StepTimes, load: Load, limits: Limits) -> Array:
    """The mean TPOT in seconds at every load, equal to the mean of `ServedLoad.tpot`. The other results are
    not computed.
    """
    lengths = load.lengths
    most = capacity(steps, lengths, limits)
    saturation_rate = most.requests_per_s
    if load.clients is not None:
        all_clients = np.atleast_1d(np.asarray(load.clients, float))
        clients = at_server(steps, load, limits, all_clients).clients
        seated = np.minimum(clients, float(steps.seats))
        return client_cycle(steps, lengths, limits, seated, saturation_rate).decoding_s / lengths.decoded
    rate = np.atleast_1d(np.asarray(load.rate, float))
    chain = occupancy(steps, lengths, rate, saturation_rate, load.burstiness)
    served = np.minimum(rate, saturation_rate)
    running = running_requests(steps, chain, served, saturation_rate, most.full_batch)
    return running / served / lengths.decoded
