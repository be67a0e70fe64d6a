"""The best single draft length at each load."""

from collections.abc import Sequence

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.closed_loop import at_server
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.steps import StepTimes

NEVER_S = 1e9
"""Seconds of an answer from a server that falls behind, larger than any other; a higher capacity makes it
smaller.
"""


class Auto(LengthPolicy):
    """The length with the lowest mean TPOT at each load, constant at that load."""

    help = "the best at each load"
    source = "docs/traffic.md"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """Each length above 0 at the loads where it has the lowest mean TPOT by its mean batch.

        A client without a seat counts with its waiting time. If no length can serve a rate, the one with the
        highest capacity is taken.
        """
        loads = replica.loads
        if replica.load.rate is None:  # about as many think at every length
            loads = at_server(replica.passes[0], replica.load, replica.limits, loads).clients
            tpot = [_of_clients_s(steps, replica, loads) for steps in replica.passes.values()]
        else:
            tpot = [_of_rates_s(steps, replica, loads) for steps in replica.passes.values()]
        fastest = np.argmin(np.stack(tpot), 0)
        best = np.array(list(replica.passes))[fastest]
        return [
            Choice(self, gamma, replica.passes[gamma], np.flatnonzero(best == gamma))
            for gamma in np.unique(best).tolist()
            if gamma
        ]


def _of_rates_s(steps: StepTimes, replica: Replica, rates: Array) -> Array:
    """Seconds in which a request decodes at each rate, at the mean batch of the rate."""
    iterations = steps.iterations(replica.lengths)
    leaving_rate = 1.0 / (iterations * steps.decode_s / steps.batches + steps.prompt_s)
    batch = 1.0 + np.interp(rates, np.maximum.accumulate(leaving_rate), steps.batches, left=0.0)
    seconds = iterations * steps.decode_at(batch) / (1.0 - rates * steps.prompt_at(batch))
    most = capacity(steps, replica.lengths, replica.limits).requests_per_s
    return np.where(rates < most, seconds, NEVER_S - most)


def _of_clients_s(steps: StepTimes, replica: Replica, clients: Array) -> Array:
    """Seconds of an answer for each number of clients at a server, per running request; infinite without a
    seat.
    """
    if not steps.seats:
        return np.full(clients.shape, np.inf)
    batch = np.minimum(clients, float(steps.seats))
    prompts_s = (batch - 1.0) * steps.prompt_at(batch)
    return (steps.iterations(replica.lengths) * steps.decode_at(batch) + prompts_s) / batch
