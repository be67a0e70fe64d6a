"""The decoding passes of each request, drawn token by token from its own acceptance."""

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.latency import beta_of
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration, conditional_from_survival

HALVINGS = 20
DRAWN_AT_ONCE = 2_000_000
"""Number of iterations whose gains are drawn together, which keeps memory constant."""


def iterations(steps: StepTimes, decoded: NDArray[np.int64], spread: float, seed: int) -> NDArray[np.int64]:
    """Number of decoding passes of each request: drawn gains are summed until its tokens are complete."""
    gained = steps.tokens_per_iteration
    gamma = steps.gamma
    if gained <= 1:
        return decoded
    draw = np.random.default_rng([seed, 1])
    survival = _own_survival(steps, spread, decoded.size, draw)
    needed = np.zeros(decoded.size, np.int64)
    block = max(DRAWN_AT_ONCE // int(decoded.max(initial=1)), 1)
    for at in range(0, decoded.size, block):
        part = slice(at, at + block)
        tokens = decoded[part]
        drawn = draw.random((tokens.size, int(tokens.max(initial=1))))
        gains = np.ones(drawn.shape, np.int16)
        for j in range(gamma):
            gains += drawn < survival[part, j, None]
        decoded_so_far = np.cumsum(gains, 1, dtype=np.int32)
        needed[part] = 1 + (decoded_so_far < tokens[:, None]).sum(1)
    return needed


def _own_survival(steps: StepTimes, spread: float, count: int, draw: np.random.Generator) -> Array:
    """P(at least j drafted tokens are accepted), ``[request, j - 1]``, with a Beta-distributed acceptance of
    each request.

    Engines count iterations, so the draws keep 1 / E[1/Omega] at the given gain.
    """
    gained = steps.tokens_per_iteration
    gamma = steps.gamma
    alpha = float(alpha_from_tokens_per_iteration(min(gained, gamma + 1.0), float(gamma)))
    rates: Array = np.full(gamma, alpha)
    if steps.survival is not None:
        rates = conditional_from_survival(steps.survival)
    if spread == 0 or alpha == 1:
        return np.tile(np.cumprod(rates), (count, 1))
    own = draw.beta(*beta_of(alpha, spread), count)[:, None] / alpha
    low = 0.0
    high = 1.0 / alpha
    survival = np.zeros((count, gamma))
    for _ in range(HALVINGS):
        scale = (low + high) / 2.0
        survival = np.asarray(np.cumprod(np.minimum(rates * own * scale, 1.0), 1), float)
        above = 1.0 / np.mean(1.0 / (1.0 + survival.sum(1))) > gained
        low, high = (low, scale) if above else (scale, high)
    return survival
