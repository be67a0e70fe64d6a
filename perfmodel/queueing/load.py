"""What arrives at a server: requests of some lengths, at a rate or from so many clients, and what the server
allows.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Floats


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and output tokens of a request: means and standard deviations."""

    input_mean: float
    output_mean: float
    input_std: float = 0.0
    output_std: float = 0.0

    @property
    def decoded(self) -> float:
        """Tokens that come out of decoding passes: all but the first, which the prompt's own pass gives."""
        return self.output_mean - 1.0

    @property
    def context(self) -> float:
        """Mean cached tokens of a request that decodes: P + E[D^2] / (2 E[D]), for longer outputs stay
        longer.
        """
        return self.input_mean + (self.output_mean**2 + self.output_std**2) / (2.0 * self.output_mean)

    @property
    def context_std(self) -> float:
        """Standard deviation of the cached tokens over the requests that decode together, at most a
        uniform's.
        """
        spread = np.hypot(self.input_std, self.output_mean / np.sqrt(12.0))
        return float(min(spread, self.context / np.sqrt(3.0)))

    @property
    def input_cv(self) -> float:
        """Standard deviation of the prompt over its mean."""
        return self.input_std / self.input_mean


@dataclass(frozen=True, slots=True)
class Load:
    """Requests per second of an open loop, or clients of a closed one that each wait for their answer.

    Exactly one of `rate` and `clients` is given, an array. burstiness: as in `vllm bench serve`, the
    shape of gamma-distributed gaps between arrivals: 1 is Poisson, below 1 burstier. think_s: mean time after
    an answer before a client sends again.
    """

    lengths: Lengths
    rate: Floats | None = None
    clients: Floats | None = None
    burstiness: float = 1.0
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows at once. max_num_seqs: requests that run; max_num_batched_tokens: tokens of one
    pass.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    memory_fraction: float = 0.92
