"""A policy that chooses a draft length for each running batch from a benchmark at one prompt length."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.pricing import step_times

PROFILED_AT = 8192
"""Prompt tokens of the requests in the benchmark. The value is assumed."""


class Profiled(LengthPolicy):
    """At each batch, the draft length with the most tokens per second at the prompt length of the benchmark.
    The time that a change of length costs is ignored.
    """

    help = f"like table, but chosen for {PROFILED_AT // 1024}K prompts"
    noun = "the profiled table"
    source = "num_speculative_tokens_per_batch_size of vLLM, made by a benchmark of one length"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table of draft lengths, the same for every load."""
        seats = min(t.seats for t in replica.passes.values())
        profile = replace(replica.lengths, input_mean=float(PROFILED_AT), input_std=0.0)
        times = step_times(replica.scenario, profile, replica.limits, [*replica.passes])
        known = min(t.decode_s.size for t in times)
        gained = [t.tokens_per_iteration / t.decode_s[:known] for t in times]
        best = np.array([t.gamma for t in times])[np.argmax(gained, 0)].tolist()
        table = (best + best[-1:] * seats)[:seats]
        return [replica.switching(self, table, replica.sustained(set(table)) if table else 0.0)]
