"""The best single draft length at each load."""

from collections.abc import Sequence

import numpy as np

from perfmodel.operations import Array, Ints
from perfmodel.queueing.closed_loop import at_server
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation.length_to_run import length_to_run

NEVER_S = 1e9
"""Time in seconds that represents an answer from a saturated server. It is larger than any real time. The
saturation rate is subtracted from it, so a server with a higher capacity is preferred.
"""


class Auto(LengthPolicy):
    """At each load, the one draft length with the lowest mean TPOT."""

    help = "the best single length at each load"
    source = "docs/traffic.md"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One choice for each draft length above 0 that has the lowest mean TPOT at some loads. TPOT is
        computed at the mean batch. If the acceptance was measured only at shorter contexts, a shorter draft
        that is about as fast is chosen (`length_to_run`).

        In a closed loop, the time for which a client waits for a seat counts too. If no length can serve a
        rate, the length with the highest saturation rate is chosen.
        """
        loads = replica.loads
        if replica.load.rate is None:  # about as many clients think at every length
            loads = at_server(replica.passes[0], replica.load, replica.limits, loads).clients
            tpot = [_of_clients_s(steps, replica, loads) for steps in replica.passes.values()]
        else:
            tpot = [_of_rates_s(steps, replica, loads) for steps in replica.passes.values()]
        best = np.array(list(replica.passes))[_to_run(replica, np.stack(tpot))]
        return [
            Choice(self, gamma, replica.passes[gamma], np.flatnonzero(best == gamma))
            for gamma in np.unique(best).tolist()
            if gamma
        ]


def _to_run(replica: Replica, times_s: Array) -> Ints:
    """The index of the length at each load.

    - times_s: times of the lengths from 0, by load.
    """
    fastest = np.argmin(times_s, 0)
    if len(times_s) == 1:
        return fastest
    run = 1 + length_to_run(replica.scenario, replica.lengths.context, times_s[1:])
    drafts = (fastest > 0) & (times_s.min(0) < NEVER_S / 2)
    return np.where(drafts, run, fastest)


def _of_rates_s(steps: StepTimes, replica: Replica, rates: Array) -> Array:
    """Seconds in which a request decodes at each rate, at the mean batch of the rate."""
    iterations = steps.iterations(replica.lengths)
    leaving_rate = 1.0 / (iterations * steps.decode_s / steps.batches + steps.prompt_s)
    batch = 1.0 + np.interp(rates, np.maximum.accumulate(leaving_rate), steps.batches, left=0.0)
    seconds = iterations * steps.decode_at(batch) / (1.0 - rates * steps.prompt_at(batch))
    most = capacity(steps, replica.lengths, replica.limits).requests_per_s
    return np.where(rates < most, seconds, NEVER_S - most)


def _of_clients_s(steps: StepTimes, replica: Replica, clients: Array) -> Array:
    """Seconds of an answer for each number of clients at a server, per running request. The result is
    infinite for a server without a seat.
    """
    if not steps.seats:
        return np.full(clients.shape, np.inf)
    batch = np.minimum(clients, float(steps.seats))
    prompts_s = (batch - 1.0) * steps.prompt_at(batch)
    return (steps.iterations(replica.lengths) * steps.decode_at(batch) + prompts_s) / batch
