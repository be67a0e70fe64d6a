"""The closed form of an open loop, in which requests arrive at a given rate. Batch, throughput and latencies
follow from the chain of `queueing.occupancy`.
"""

from functools import cache

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.chain import TINY
from perfmodel.queueing.first_token import FULL, at_any_time, first_token
from perfmodel.queueing.load import Limits, Load
from perfmodel.queueing.moments import Moments, mixed, sometimes
from perfmodel.queueing.occupancy import Occupancy, occupancy
from perfmodel.queueing.per_token import per_token
from perfmodel.queueing.saturation import capacity, prompts_per_pass
from perfmodel.queueing.served_load import ServedLoad, seen_by_requests
from perfmodel.queueing.steps import StepTimes

EXACT_BATCHES = 8
"""The nodes of an interpolation over batch sizes include every batch size up to this one."""
FURTHER = 28
"""Number of nodes beyond `EXACT_BATCHES`."""
OVERFLOWS = 1e-4
"""Share of time with all seats taken above which one in ten thousand requests waits for a seat."""


def open_loop(steps: StepTimes, load: Load, limits: Limits, spread: float, rate: Array) -> ServedLoad:
    """Batch, throughput and latencies of a server at each request rate (requests per second).

    - spread: standard deviation of the acceptance between requests.
    """
    lengths = load.lengths
    most = capacity(steps, lengths, limits)
    saturation_rate = most.requests_per_s
    chain = occupancy(steps, lengths, rate, saturation_rate, load.burstiness)
    served = np.minimum(rate, saturation_rate)
    running = running_requests(steps, chain, served, saturation_rate, most.full_batch)
    return ServedLoad(
        lengths=lengths,
        running=running,
        requests_per_s=served,
        saturated=chain.saturated,
        ttft=_ttft(steps, load, limits, chain, served),
        tpot=_tpot(steps, load, chain, served, running, spread),
        saturation_rate=saturation_rate,
        share=chain.share,
        metastable=chain.metastable,
    )


def _waits_of_bursts(load: Load) -> float:
    """The factor by which bursts lengthen waiting times, which grow with the variance of the gaps (Allen and
    Cunneen). It is 1 for Poisson arrivals.
    """
    return (1.0 + 1.0 / load.burstiness) / 2.0


def _ttft(steps: StepTimes, load: Load, limits: Limits, chain: Occupancy, served: Array) -> Moments:
    """Time to the first token, with the wait for a seat and for room in the cache."""
    batches = _nodes(chain.share.shape[1])
    share = _at_nodes(chain.share, batches)
    per_pass = prompts_per_pass(steps, load.lengths, limits, batches)
    burst = _waits_of_bursts(load)
    bunched = max(burst, 1.0 / load.burstiness)  # the prompts of a burst delay each other
    meeting = at_any_time(steps, load.lengths, batches, served, bunched, share, per_pass)
    without_room = first_token(steps, load.lengths, batches, share, per_pass, meeting)
    full, waiting = chain.queue()
    room_s = waiting / served * burst  # Little's law
    chance = np.maximum(full, TINY)
    return without_room + sometimes(chance, room_s / chance)


def _tpot(
    steps: StepTimes, load: Load, chain: Occupancy, served: Array, running: Array, spread: float
) -> Moments:
    """Time per output token, which is the running requests divided by the tokens per second (Little's
    law).
    """
    decoded = load.lengths.decoded
    mean_s = running / served / decoded
    seen = seen_by_requests(steps, chain.share)
    seen_pass_s = np.sum(seen * chain.pass_s, 1)
    batch = mixed(seen, Moments(chain.pass_s / seen_pass_s[:, None]))
    met = served * mean_s * decoded  # prompts that arrive while a request decodes
    prompt_s = steps.prompt_at(np.maximum(running, 1.0))
    bunched = _waits_of_bursts(load) / (1.0 - np.minimum(served * prompt_s, FULL)) ** 2
    prompts = Moments(met, met * bunched, met)
    return per_token(steps, load.lengths, mean_s, prompts, prompt_s, batch, spread, seen)


def running_requests(
    steps: StepTimes, chain: Occupancy, rate: Array, saturation_rate: float, full_batch: int
) -> Array:
    """Mean number of requests that are between their first and their last token. Some of them decode. The
    others wait while prompts are read.

    - full_batch: number of running requests of a saturated server.

    Prompts that arrive while another prompt is read are read before decoding continues.
    """
    prompt_s = steps.prompt_at(np.maximum(chain.running, 1.0))
    load = np.minimum(rate * prompt_s, FULL)
    own_pass_s = prompt_s * (
        1.0 + load**2 / (1.0 - load**2)
    )  # in addition to decoding, which the chain includes
    queued = rate * load * own_pass_s / (1.0 - load)
    slowest = full_batch * rate / saturation_rate  # no token takes longer than on a saturated server
    below = np.minimum(chain.running + queued, slowest)
    stays_full = chain.metastable & (chain.share[:, -1] > OVERFLOWS)
    return np.where(chain.saturated, float(full_batch), np.where(stays_full, slowest, below))


@cache
def _nodes(states: int) -> Array:
    """Some of the batch sizes 0 ... states - 1, including both ends. Small batch sizes are close together."""
    further = np.geomspace(EXACT_BATCHES, states - 1, FURTHER)
    n = np.unique(np.round(np.concatenate([np.arange(EXACT_BATCHES), further])))
    return np.asarray(n[n < states])


def _at_nodes(share: Array, nodes: Array) -> Array:
    """Weights of the nodes. A sum with these weights equals a sum over all n, ``[load, n]``, of values
    that are interpolated linearly between nodes.
    """
    batches = np.arange(float(share.shape[1]))
    place = np.interp(batches, nodes, np.arange(nodes.size))
    beyond = share * (place - np.floor(place))
    starts = nodes.astype(np.int64)
    # sums of neighbours, because a matrix product would start all threads of the library
    weights = np.add.reduceat(share - beyond, starts, 1)
    weights[:, 1:] += np.add.reduceat(beyond, starts, 1)[:, :-1]
    return np.asarray(weights)
