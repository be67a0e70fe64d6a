"""The requests of a simulation, in the order of arrival, and a function that draws them at random."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.blocks import Shared
from perfmodel.queueing.load import Lengths
from perfmodel.uniform import half_width

GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
"""The fractional parts of the multiples of this number are evenly spread between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrival times in seconds, prompt tokens and output tokens of requests, in the order of arrival.

    In a closed loop, `at_s` applies only to the first request of each client.

    - shared: the common parts of the prompts.
    - gain: tokens per iteration of each request, divided by the mean over the server's requests.
    """

    at_s: Array
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    shared: Shared | None = None
    gain: Array | None = None

    def first(self, count: int) -> "Arrivals":
        """The first `count` requests, with the shared parts of their prompts."""
        shared = self.shared and self.shared.first(count)
        return Arrivals(self.at_s[:count], self.input_tokens[:count], self.output_tokens[:count], shared)

    def out_of_step(self, clients: int) -> "Arrivals":
        """The same requests, but with only a part of the first output of each client. The parts are evenly
        spread between none and all of the output, so the clients soon send at different times.
        """
        parts = np.ones(self.at_s.size)
        parts[:clients] = np.arange(1, parts[:clients].size + 1) * GOLDEN % 1.0
        return replace(self, output_tokens=np.ceil(parts * self.output_tokens).astype(np.int64))


def arrivals(
    lengths: Lengths, count: int, rate: float | None, burstiness: float, seed: int, start: float = 0.0
) -> Arrivals:
    """Draws requests at random. Their lengths are uniformly distributed with the given mean and standard
    deviation. The gaps between arrivals are gamma-distributed.

    - rate: requests per second. None means that all requests arrive at `start`.
    """
    draw = np.random.default_rng(seed)
    gaps = np.zeros(count)
    if rate is not None:
        gaps = draw.standard_gamma(burstiness, count)
        gaps *= count / rate / gaps.sum()  # the drawn requests then have exactly this rate
    return Arrivals(
        start + np.cumsum(gaps),
        _lengths(draw, lengths.input_mean, lengths.input_std, count),
        _lengths(draw, lengths.output_mean, lengths.output_std, count),
    )


def _lengths(draw: np.random.Generator, mean: float, std: float, count: int) -> NDArray[np.int64]:
    half = min(half_width(std), mean - 1.0)
    tokens = np.floor(draw.uniform(mean - half, mean + half, count) + draw.uniform(0.0, 1.0, count))
    return tokens.astype(np.int64)
