"""The load of a server, and the limits of the server. The load consists of the lengths of requests and a
request rate or a number of clients.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Array, Floats
from perfmodel.specs.engines.served_requests import PassOrder
from perfmodel.uniform import half_width, largest_std


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and output tokens of a request: means and standard deviations."""

    input_mean: float
    output_mean: float
    input_std: float = 0.0
    output_std: float = 0.0

    @property
    def decoded(self) -> float:
        """Output tokens that decoding passes produce. The pass that reads the prompt produces the first
        token.
        """
        return self.output_mean - 1.0

    @property
    def context(self) -> float:
        """Mean cached tokens of a decoding request: P + E[D^2] / (2 E[D]). The square appears because
        requests with longer outputs decode for longer.

        - P: prompt tokens.
        - D: output tokens.
        """
        return self.input_mean + (self.output_mean**2 + self.output_std**2) / (2.0 * self.output_mean)

    @property
    def context_std(self) -> float:
        """Standard deviation of the cached tokens between requests that decode at the same time. It is at
        most the standard deviation of a uniform distribution from 0 to twice the mean.
        """
        spread = np.hypot(self.input_std, largest_std(self.output_mean / 2.0))
        return float(min(spread, largest_std(self.context)))

    @property
    def input_cv(self) -> float:
        """Standard deviation of the prompt length, divided by its mean."""
        return self.input_std / self.input_mean


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a server: requests per second (open loop), or a number of clients that each wait for their
    answer (closed loop).

    Exactly one of `rate` and `clients` is given, as an array.

    - burstiness: shape parameter of the gamma-distributed gaps between arrivals, as in `vllm bench serve`. At
      1, arrivals are Poisson. Below 1, they are burstier.
    - think_s: mean time between an answer and the next request of the same client, in seconds.
    """

    lengths: Lengths
    rate: Floats | None = None
    clients: Floats | None = None
    burstiness: float = 1.0
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server.

    - max_num_seqs: largest number of running requests.
    - drafting_seats: largest number of running requests if the server drafts. It is None if it equals
      max_num_seqs.
    - max_num_batched_tokens: largest number of tokens in one pass.
    - memory_fraction: share of device memory for weights and caches. None means the engine's default.
    - max_prompt_part: largest number of tokens of one prompt in one pass. None means no limit.
    - order: how prompts and decoding share passes. None means the engine's default.
    - poll_passes: number of decoding passes between two checks for new requests. The server also checks after
      each pass that reads prompts.
    - reserved_output: a share of the tokens that the running requests still have to decode. A new request
      enters only if the cache has room for this share. If the share is above 0, the whole output of the new
      request must fit too.
    - batch_wait_passes: largest number of passes for which prompts wait for a fuller pass.
    - batch_wait_share: prompts stop waiting if the next pass uses at least this share of its token budget.
    - balance_passes: see `groups.Groups`.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    memory_fraction: float | None = None
    max_prompt_part: int | None = None
    order: PassOrder | None = None
    poll_passes: int = 1
    drafting_seats: int | None = None
    reserved_output: float = 0.0
    batch_wait_passes: int = 0
    batch_wait_share: float = 0.0
    balance_passes: int = 0

    def seats(self, drafts: bool) -> int:
        """Largest number of requests that the server runs at once, if their caches fit.

        - drafts: whether the server drafts.
        """
        if drafts and self.drafting_seats is not None:
            return self.drafting_seats
        return self.max_num_seqs


def whole_passes(mean: Array, cv: float) -> Array:
    """Expected number of passes that read a prompt, if each prompt takes a whole number of passes.

    - mean, cv: mean and coefficient of variation of the prompt's length, in passes. The length is uniformly
      distributed.
    """
    half = np.maximum(half_width(cv), 1e-6) * mean

    def area(x: Array) -> Array:
        """Integral of the rounded-up number of passes, from 0."""
        whole = np.ceil(x)
        return whole * x - whole * (whole - 1.0) / 2.0

    longest = mean + half
    shortest = np.maximum(mean - half, 0.0)
    return (area(longest) - area(shortest)) / (half + np.minimum(half, mean))
