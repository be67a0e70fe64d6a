"""The times of a server's passes, by the number of decoding requests. The queueing formulas need no other
facts about a server, except its limits.

A pass over n decoding requests takes `decode_s[n-1]`. A prompt in the same pass adds `prompt_s[n-1]`. This
time consists of the prompt's tokens in the roofline of the pass, its quadratic attention, and the prefill of
the draft.
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
    """The times of passes with `gamma` drafted tokens, at each running batch from 1 to `seats`.

    - tokens_per_iteration: mean number of tokens that a request gets per pass, including the bonus token.
    - seats: the largest number of concurrent requests. max_num_seqs, the KV memory and the token budget of a
      pass limit it. It is 0 if not even one request fits.
    - kv_share: share of the KV memory that one request takes.
    - own_s: seconds that a request spends outside passes.
    - passes_ahead: number of passes that are already queued on the device when a request arrives.
    - prompt_s: seconds that one prompt adds to a pass at each running batch.
    - prefill: a function that returns the total time that the prompts of a pass add to the pass. It is None
      if each prompt adds `prompt_s`.
    - survival: the probability that at least j drafted tokens are accepted, from j = 0. It is None if the
      acceptance is the same at every position.
    - table: the pass times at each running batch, if the draft length depends on the batch. The other fields
      are then rescaled to a constant `tokens_per_iteration`.
    - cached: the effect of the prefix cache on the prompts. It is None without a prefix cache.
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
    def uneven_groups(self) -> int:
        """See `PrefillTime.uneven_groups`."""
        return 1 if self.prefill is None else self.prefill.uneven_groups

    @property
    def batches(self) -> Array:
        """The running batches 1 ... seats. If there is no seat, the only batch is 1."""
        return np.arange(1.0, self.decode_s.size + 1)

    def prompt_tokens(self, lengths: Lengths, batch: Floats) -> Floats:
        """Mean number of prompt tokens that are computed, because they are not in a prefix cache."""
        if self.cached is None:
            return lengths.input_mean
        return self.cached.at(self.cached.read, batch)

    def prompt_cv(self, lengths: Lengths) -> float:
        """Coefficient of variation of the computed prompt tokens, between prompts."""
        return lengths.input_cv if self.cached is None else self.cached.cv

    def alone_s(self, lengths: Lengths) -> float:
        """Seconds that a request spends decoding if no other request runs."""
        return self.iterations(lengths) * float(self.decode_s[0])

    def iterations(self, lengths: Lengths) -> float:
        """Mean number of iterations of an answer. The last iteration may produce more tokens than the answer
        still needs.
        """
        gained = self.tokens_per_iteration
        return max((lengths.decoded + excess(self.gamma, round(gained, 9))) / gained, 1.0)

    def slowed(self, factor: float) -> "StepTimes":
        """A copy with all pass times multiplied by a factor."""
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
        """Seconds of a decoding pass at each running batch, without the rescaling that `decode_s` has with a
        table of draft lengths.
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
    """Mean number of tokens that the last iteration of an answer produces beyond the end of the answer:
    E[X^2] / (2 E[X]) - 1/2 (renewal theory).

    - X: number of tokens of an iteration.
    """
    alpha = float(alpha_from_tokens_per_iteration(gained, float(gamma))) if gained > 1 else 0.0
    position = np.arange(gamma + 1.0)
    return float((2.0 * position + 1.0) @ alpha**position / (2.0 * gained) - 0.5)
