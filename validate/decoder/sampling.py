"""From scores to tokens, and which drafted tokens stand: greedy equality or exact rejection sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from perfmodel.errors import InputError

LEAST_TEMPERATURE = 1e-6
"""Below it scores divided by it leave the range of float32."""


@dataclass(frozen=True)
class Sampling:
    """Temperature 0 is greedy; `top_p` keeps the smallest set of tokens with at least that probability."""

    temperature: float = 0.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not LEAST_TEMPERATURE <= self.temperature < float("inf"):
            raise InputError(f"--temperature: must be 0, or {LEAST_TEMPERATURE} or above, given {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"--top-p: must be in (0, 1], given {self.top_p}")

    @property
    def greedy(self) -> bool:
        """No chance involved."""
        return self.temperature == 0

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution [..., vocab] that tokens are drawn from (not for greedy decoding)."""
        exact = logits if logits.dtype == torch.float64 else logits.float()
        probabilities = (exact / self.temperature).softmax(-1)
        if self.top_p == 1:
            return probabilities
        ordered, index = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(-1) - ordered
        kept = ordered.masked_fill(before >= self.top_p, 0.0)
        return torch.zeros_like(kept).scatter_(-1, index, kept / kept.sum(-1, keepdim=True))


def race(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """A score per token of each distribution [..., vocab]: the k highest are k draws without replacement, in order."""
    noise = torch.empty_like(probabilities).exponential_(generator=generator)
    return probabilities / noise.clamp(min=torch.finfo(noise.dtype).tiny)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """One token of each distribution [..., vocab], by the exponential race: no wait for the device."""
    return race(probabilities, generator).argmax(-1)


@dataclass(frozen=True)
class Verdict:
    """accepted: drafted tokens that stand, [batch] 0 .. gamma; bonus: the target's own token after them, [batch]."""

    accepted: Tensor
    bonus: Tensor


def verify_greedy(drafted: Tensor, logits: Tensor, count: Tensor | None = None) -> Verdict:
    """Drafted tokens [batch, gamma] against scores [batch, gamma + 1, vocab]: the target's argmax decides.

    count [batch]: how many were drafted in each sequence, where it is not gamma.
    """
    best = logits.argmax(-1)
    accepted = _leading(drafted == best[:, :-1], count)
    return Verdict(accepted, best.gather(1, accepted[:, None])[:, 0])


def verify_sampled(
    drafted: Tensor,
    proposed: Tensor | None,
    target: Tensor,
    generator: torch.Generator,
    count: Tensor | None = None,
) -> Verdict:
    """Exact rejection sampling (Leviathan et al. 2023, algorithm 1).

    proposed [batch, gamma, vocab] are the distributions that `drafted` was drawn from, None where there was no chance;
    target [batch, gamma + 1, vocab]; count [batch] as in `verify_greedy`. What comes out is distributed as direct
    sampling from the target.
    """
    if proposed is None:
        proposed = torch.zeros_like(target[:, :-1]).scatter_(2, drafted[..., None], 1.0)
    p = target[:, :-1].gather(2, drafted[..., None])[..., 0]
    q = proposed.gather(2, drafted[..., None])[..., 0]
    u = torch.empty_like(p).uniform_(generator=generator)
    accepted = _leading(u * q < p, count)
    if count is not None:
        beyond = torch.arange(p.shape[1], device=p.device) >= count[:, None]
        proposed = proposed.masked_fill(beyond[..., None], 0.0)
    residual = torch.cat(((target[:, :-1] - proposed).clamp(min=0), target[:, -1:]), dim=1)
    index = accepted[:, None, None].expand(-1, 1, target.shape[-1])
    rest = residual.gather(1, index)[:, 0]
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, target.gather(1, index)[:, 0])
    return Verdict(accepted, draw(rest, generator))


def _leading(stands: Tensor, count: Tensor | None) -> Tensor:
    """How many stand before the first that does not, [batch], of stands [batch, gamma]; at most `count`."""
    accepted = stands.long().cumprod(1).sum(1)
    return accepted if count is None else torch.minimum(accepted, count)


class Script:
    """Accepted counts drawn on the device from a stated distribution, whatever the models say."""

    def __init__(self, weights: list[float], device: torch.device) -> None:
        """weights: relative frequency of 0, 1, ... gamma accepted tokens."""
        if not weights or min(weights) < 0 or sum(weights) <= 0:
            raise InputError(f"scripted acceptance: must be gamma + 1 counts, not all zero, given {weights}")
        share = torch.tensor(weights, dtype=torch.float64)
        self._cumulative = (share.cumsum(0) / share.sum())[:-1].float().to(device)

    def accepted(self, batch: int, generator: torch.Generator) -> Tensor:
        """Counts [batch], 0 .. gamma."""
        u = torch.empty(batch, 1, device=self._cumulative.device).uniform_(generator=generator)
        return (u >= self._cumulative).sum(1)


def scripted_weights(alpha: float, gamma: int) -> list[float]:
    """Frequencies of 0 .. gamma accepted tokens; each is accepted with probability `alpha` if its forerunners were."""
    if not 0 <= alpha <= 1:
        raise InputError(f"--alpha: must be in [0, 1], given {alpha}")
    return [alpha**j * (1 - alpha) for j in range(gamma)] + [alpha**gamma]
