"""The best single draft length at each load."""

from collections.abc import Sequence

import numpy as np

from perfmodel.queueing.closed import at_server
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica

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
        lengths = replica.lengths
        if replica.load.rate is None:  # about as many think at every length
            loads, _ = at_server(replica.passes[0], replica.load, replica.limits, loads)
        tpot = []
        for t in replica.passes.values():
            if replica.load.rate is not None:
                leave = 1.0 / (t.iterations(lengths) * t.decode_s / t.batches + t.prompt_s)
                batch = 1.0 + np.interp(loads, np.maximum.accumulate(leave), t.batches, left=0.0)
                seconds = t.iterations(lengths) * t.decode_at(batch) / (1.0 - loads * t.prompt_at(batch))
                most = capacity(t, lengths, replica.limits)[0]
                tpot.append(np.where(loads < most, seconds, NEVER_S - most))
            else:
                batch = np.minimum(loads, float(max(t.seats, 1)))
                seconds = t.iterations(lengths) * t.decode_at(batch) + (batch - 1.0) * t.prompt_at(batch)
                tpot.append(seconds / batch if t.seats else np.full(loads.shape, np.inf))
        fastest = np.argmin(np.stack(tpot), 0)
        best = np.array(list(replica.passes))[fastest]
        return [
            Choice(self, gamma, replica.passes[gamma], np.flatnonzero(best == gamma))
            for gamma in np.unique(best).tolist()
            if gamma
        ]
