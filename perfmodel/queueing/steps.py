"""Times of a server's passes, by the number of decoding requests. Queueing needs no other facts about a
server.

A pass over n decoding requests takes `decode_s[n-1]`. A prompt in the same pass adds `prompt_s[n-1]`: the
time of its tokens in the roofline of the pass, its quadratic attention, and the draft's prefill.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.queueing.prefix import CachedPrompts
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """Passes that draft `gamma` tokens, by running batch 1 ... `seats`.

    tokens_per_iteration: gain of a request per pass, including the bonus token. seats: the largest number
    of concurrent requests, limited by max_num_seqs, the KV memory and the token budget of a pass (0 if not
    even one fits). kv_share: share of the KV memory that one request takes. own_s: seconds that a request
    spends outside passes. passes_ahead: passes that the device already has when a request arrives.
    prefill: the time that several prompts in a pass add; `prompt_s` is the share of one prompt. None if
    each prompt adds `prompt_s`. survival: P(at least j drafted tokens are accepted), from j = 0; None if
    the acceptance is the same at every position. table: the passes at each running batch, if the draft
    length depends on it; the other fields are then rescaled to a constant `tokens_per_iteration`. cached:
    what a prefix cache leaves to compute; None without one.
    """

    gamma: int
    tokens_per_iteration: float
    decode_s: Array
    prompt_s: Array
    seats: int
    kv_share: float
    own_s: float = 0.0
    passes_ahead: float = 0.0
    prefill: PrefillTime | None = None
    survival: Array | None = None
    table: "tuple[StepTimes, ...]" = ()
    cached: CachedPrompts | None = None

    @property
    def batches(self) -> Array:
        """The running batches 1 ... seats; [1] without a seat."""
        return np.arange(1.0, self.decode_s.size + 1)

    def prompt_tokens(self, lengths: Lengths, batch: Floats) -> Floats:
        """Mean number of computed tokens of a prompt."""
        if self.cached is None:
            return lengths.input_mean
        return self.cached.at(self.cached.read, batch)

    def prompt_cv(self, lengths: Lengths) -> float:
        """Coefficient of variation of the computed prompt tokens, between prompts."""
        return lengths.input_cv if self.cached is None else self.cached.cv

    def alone_s(self, lengths: Lengths) -> float:
        """Seconds of decoding for an answer that runs alone."""
        return self.iterations(lengths) * float(self.decode_s[0])

    def iterations(self, lengths: Lengths) -> float:
        """Mean number of iterations of an answer. The last iteration may gain more tokens than the answer
        still needs.
        """
        gained = self.tokens_per_iteration
        return max((lengths.decoded + excess(self.gamma, round(gained, 9))) / gained, 1.0)

    def slowed(self, factor: float) -> "StepTimes":
        """All times of passes multiplied by a factor."""
        slower = {steps: steps.slowed(factor) for steps in set(self.table)}
        return replace(
            self,
            decode_s=factor * self.decode_s,
            prompt_s=factor * self.prompt_s,
            prefill=self.prefill and self.prefill.slowed(factor),
            table=tuple(slower[steps] for steps in self.table),
        )

    def decode_at(self, batch: Array) -> Array:
        """`decode_s`, interpolated between whole batch sizes."""
        return np.interp(batch, self.batches, self.decode_s)

    @property
    def running_s(self) -> Array:
        """Real seconds of a decoding pass at each running batch; with a table of draft lengths, `decode_s`
        has rescaled times.
        """
        return self.decode_s * (self.gains / self.tokens_per_iteration)

    @property
    def gains(self) -> Array:
        """`tokens_per_iteration` at each running batch."""
        if not self.table:
            return np.full(self.decode_s.size, self.tokens_per_iteration)
        return np.array([t.tokens_per_iteration for t in self.table])

    def prompt_at(self, batch: Array) -> Array:
        """`prompt_s`, interpolated between whole batch sizes."""
        return np.interp(batch, self.batches, self.prompt_s)


@cache
def excess(gamma: int, gained: float) -> float:
    """Mean number of tokens that the last iteration of an answer gains beyond the answer's end: E[X^2] / (2
    E[X]) - 1/2 (renewal theory). X: tokens of an iteration.
    """
    alpha = float(alpha_from_tokens_per_iteration(gained, float(gamma))) if gained > 1 else 0.0
    position = np.arange(gamma + 1.0)
    return float((2.0 * position + 1.0) @ alpha**position / (2.0 * gained) - 0.5)
