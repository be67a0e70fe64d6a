"""Acceptance by stated frequencies, regardless of the models; measurements use it."""

from collections.abc import Sequence

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.sampling import AcceptedTokens


class Script:
    """Numbers of accepted tokens of a chain, drawn on the device from a stated distribution."""

    def __init__(self, weights: Sequence[float], device: torch.device) -> None:
        """weights: relative frequency of 0, 1, ... gamma accepted tokens."""
        if not weights or min(weights) < 0 or sum(weights) <= 0:
            raise InputError(f"scripted acceptance: must be gamma + 1 counts, not all zero, given {weights}")
        share = torch.tensor(weights, dtype=torch.float64)
        self._cumulative = (share.cumsum(0) / share.sum())[:-1].float().to(device)

    def __call__(self, accepted: AcceptedTokens, generator: torch.Generator) -> AcceptedTokens:
        """Counts of 0 .. gamma, with the next tokens of `accepted`."""
        u = torch.empty(len(accepted.count), 1, device=self._cumulative.device).uniform_(generator=generator)
        return AcceptedTokens((u >= self._cumulative).sum(1), accepted.next_token)


def scripted_weights(alpha: float, gamma: int) -> list[float]:
    """Frequencies of 0 .. gamma accepted tokens. Each token is accepted with probability `alpha` if all
    before it were.
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"--alpha: must be in [0, 1], given {alpha}")
    return [alpha**j * (1 - alpha) for j in range(gamma)] + [alpha**gamma]
