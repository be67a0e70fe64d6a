"""A policy that drafts only while few requests run, always with the same length."""

from collections.abc import Sequence

import numpy as np

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica


class Tail(LengthPolicy):
    """The server drafts while its running batch is at most a certain size. At each batch up to this size,
    decoding with the draft is faster than the baseline.

    The policy chooses the draft length whose speedups over these batches have the largest sum of logarithms.
    """

    help = "one length while few requests run, otherwise 0"
    noun = "the tail"
    source = "speculative_disable_by_batch_size of vLLM 0.8; vllm#41821"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table of draft lengths, the same for every load."""
        seats = min(t.seats for t in replica.passes.values())
        alone = replica.passes[0].decode_s[:seats]
        best = 0
        saved = 0.0
        until = 0
        for gamma, t in replica.passes.items():
            gain = np.log(alone * t.tokens_per_iteration / t.decode_s[:seats])
            pays = int(np.argmin(np.append(gain > 0, False)))
            if gain[:pays].sum() > saved:
                best = gamma
                saved = float(gain[:pays].sum())
                until = pays
        table = [best] * until + [0] * (seats - until)
        return [replica.switching(self, table, replica.sustained({0, best}))]
