"""Draws at random how many decoding passes each request needs, token by token, from the acceptance of the
request.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.acceptance_spread import beta_of
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration, conditional_from_survival

HALVINGS = 20
"""Number of bisection steps for the acceptance that gives the known mean gain. They narrow its range to a
millionth.
"""
DRAWN_AT_ONCE = 2_000_000
"""Number of iterations whose gains are drawn together. The limit keeps the memory use constant."""


def iterations(steps: StepTimes, decoded: NDArray[np.int64], spread: float, seed: int) -> NDArray[np.int64]:
    """Number of decoding passes that each request needs. The tokens of each pass are drawn at random until
    all output tokens of the request are decoded.
    """
    if steps.tokens_per_iteration <= 1:
        return decoded
    survival = None if steps.survival is None else tuple(steps.survival.tolist())
    gains = Gains(steps.gamma, steps.tokens_per_iteration, survival, spread)
    return _iterations(gains, decoded.tobytes(), seed)


@dataclass(frozen=True, slots=True)
class Gains:
    """The distribution of the number of tokens per iteration.

    - survival: the probability that at least j drafted tokens are accepted, from j = 0. It is None if the
      acceptance is the same at every position.
    - spread: standard deviation of the acceptance between requests.
    """

    gamma: int
    tokens_per_iteration: float
    survival: tuple[float, ...] | None
    spread: float


@lru_cache(maxsize=16)
def _iterations(gains: Gains, decoded_bytes: bytes, seed: int) -> NDArray[np.int64]:
    """The iterations of requests, which are the same at every load and on every layout.

    - decoded_bytes: the bytes of an int64 array of the tokens of each request.
    """
    decoded = np.frombuffer(decoded_bytes, np.int64)
    draw = np.random.default_rng([seed, 1])
    survival = _survival_by_request(gains, decoded.size, draw)
    needed = np.zeros(decoded.size, np.int64)
    requests_at_once = max(DRAWN_AT_ONCE // int(decoded.max(initial=1)), 1)
    for first in range(0, decoded.size, requests_at_once):
        together = slice(first, first + requests_at_once)
        tokens = decoded[together]
        drawn = draw.random((tokens.size, int(tokens.max(initial=1))))
        gained = np.ones(drawn.shape, np.int16)
        for j in range(gains.gamma):
            gained += drawn < survival[together, j, None]
        decoded_so_far = np.cumsum(gained, 1, dtype=np.int32)
        needed[together] = 1 + (decoded_so_far < tokens[:, None]).sum(1)
    needed.setflags(write=False)
    return needed


def _survival_by_request(gains: Gains, count: int, draw: np.random.Generator) -> Array:
    """P(at least j drafted tokens are accepted), ``[request, j - 1]``, with a Beta-distributed acceptance of
    each request.

    Engines count iterations, so the draws keep 1 / E[1/Omega] at the given gain.
    """
    gained = gains.tokens_per_iteration
    gamma = gains.gamma
    alpha = float(alpha_from_tokens_per_iteration(min(gained, gamma + 1.0), float(gamma)))
    rates: Array = np.full(gamma, alpha)
    if gains.survival is not None:
        rates = conditional_from_survival(np.array(gains.survival))
    if gains.spread == 0 or alpha == 1:
        return np.tile(np.cumprod(rates), (count, 1))
    relative = draw.beta(*beta_of(alpha, gains.spread), count)[:, None] / alpha
    low = 0.0
    high = 1.0 / alpha
    survival = np.zeros((count, gamma))
    for _ in range(HALVINGS):
        scale = (low + high) / 2.0
        survival = np.asarray(np.cumprod(np.minimum(rates * relative * scale, 1.0), 1), float)
        above = 1.0 / np.mean(1.0 / (1.0 + survival.sum(1))) > gained
        low, high = (low, scale) if above else (scale, high)
    return survival
