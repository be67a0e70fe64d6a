"""The load of a server: requests with their lengths, at a rate or from a number of clients; and the limits of
the server.
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
        """Tokens that decoding passes produce: all but the first, which the prompt's own pass produces."""
        return self.output_mean - 1.0

    @property
    def context(self) -> float:
        """Mean cached tokens of a decoding request: P + E[D^2] / (2 E[D]), because requests with longer
        outputs decode for longer. P: prompt tokens. D: output tokens.
        """
        return self.input_mean + (self.output_mean**2 + self.output_std**2) / (2.0 * self.output_mean)

    @property
    def context_std(self) -> float:
        """Standard deviation of the cached tokens between requests that decode at the same time. It is at
        most that of a uniform distribution.
        """
        spread = np.hypot(self.input_std, largest_std(self.output_mean / 2.0))
        return float(min(spread, largest_std(self.context)))

    @property
    def input_cv(self) -> float:
        """Standard deviation of the prompt length, divided by its mean."""
        return self.input_std / self.input_mean


@dataclass(frozen=True, slots=True)
class Load:
    """Requests per second of an open loop, or clients of a closed loop, each of which waits for its output.

    Exactly one of `rate` and `clients` is given, as an array. burstiness: as in `vllm bench serve`, the shape
    of gamma-distributed gaps between arrivals; 1 is Poisson, below 1 burstier. think_s: mean time between an
    answer and the client's next request.
    """

    lengths: Lengths
    rate: Floats | None = None
    clients: Floats | None = None
    burstiness: float = 1.0
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server.

    max_num_seqs: most running requests. drafting_seats: most running requests of a server that drafts;
    None if it equals max_num_seqs. max_num_batched_tokens: most tokens in one pass. memory_fraction: share
    of device memory for weights and caches; None means the engine's default. max_prompt_part: most tokens
    of one prompt in one pass; None without a limit. order: how prompts and decoding share passes; None
    means the engine's default. poll_passes: number of decoding passes between two checks for new requests;
    a check also follows each pass that reads prompts. reserved_output: a request enters only if the cache
    has room for this share of the tokens that running requests have still to decode. If it is above 0, the
    whole output of the new request must fit too. batch_wait_passes: most passes for which prompts wait for
    a fuller pass. batch_wait_share: share of the token budget from which on a pass is full enough.
    balance_passes: see `groups.Groups`.
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
        """Largest number of requests that the server runs at once, if their caches fit. drafts: whether
        the server drafts.
        """
        if drafts and self.drafting_seats is not None:
            return self.drafting_seats
        return self.max_num_seqs


def whole_passes(mean: Array, cv: float) -> Array:
    """Expected number of passes that read a prompt, if each prompt takes a whole number of passes.

    mean, cv: mean and coefficient of variation of the prompt's length in passes, which is uniformly
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
