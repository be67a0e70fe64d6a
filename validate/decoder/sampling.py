"""Draws tokens from logits, and accepts draft tokens in greedy decoding or by exact rejection sampling.

For measurements, a script can accept tokens with given frequencies, regardless of the models.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError

MIN_TEMPERATURE = 1e-6
"""Smallest temperature except 0. A smaller temperature could make the divided logits exceed the range of
float32.
"""


@dataclass(frozen=True)
class Sampling:
    """The sampling of tokens.

    - temperature: the temperature; 0 means greedy decoding.
    - top_k: the number of most likely tokens that are kept; 0 keeps all.
    - top_p: the total probability of the kept tokens. The fewest most likely tokens that reach it are kept.

    top_k is applied before top_p, as in transformers and vLLM.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not MIN_TEMPERATURE <= self.temperature < float("inf"):
            raise InputError(
                f"--temperature: must be 0, or {MIN_TEMPERATURE} or above, given {self.temperature}"
            )

    @property
    def greedy(self) -> bool:
        """Whether each token is the most likely one."""
        return self.temperature == 0

    def __str__(self) -> str:
        limits = f", top-k {self.top_k}" if self.top_k else ""
        if self.top_p < 1:
            limits += f", top-p {self.top_p:g}"
        if self.greedy:
            return "greedy"
        return f"temperature {self.temperature:g}{limits}"

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distributions [..., vocab] from which tokens are drawn. The temperature must not be 0."""
        exact = logits if logits.dtype == torch.float64 else logits.float()
        probs = (exact / self.temperature).softmax(-1)
        if self.top_p == 1 and not 0 < self.top_k < probs.shape[-1]:
            return probs
        ordered, index = probs.sort(dim=-1, descending=True)
        most = self.top_k or None
        ordered = ordered[..., :most]
        ordered = ordered / ordered.sum(-1, keepdim=True)
        before = ordered.cumsum(-1) - ordered
        likely = ordered.masked_fill(before >= self.top_p, 0.0)
        likely = likely / likely.sum(-1, keepdim=True)
        return torch.zeros_like(probs).scatter_(-1, index[..., :most], likely)


def race(probs: Tensor, generator: torch.Generator) -> Tensor:
    """A random score for each token of each distribution [..., vocab]. The k tokens with the highest scores
    are k draws without replacement, in order.
    """
    noise = torch.empty_like(probs).exponential_(generator=generator)
    return probs / noise.clamp(min=torch.finfo(noise.dtype).tiny)


def draw(probs: Tensor, generator: torch.Generator) -> Tensor:
    """One random token from each distribution [batch, vocab], [batch]. The method is the exponential race
    (`race`), which does not wait for the device.
    """
    return race(probs, generator).argmax(1)


@dataclass(frozen=True)
class AcceptedTokens:
    """The accepted tokens of an iteration.

    - count [batch]: the number of accepted draft tokens, 0 .. gamma.
    - next_token [batch]: the target's own token after the accepted draft tokens.
    """

    count: Tensor
    next_token: Tensor


class DraftedTokens(NamedTuple):
    """The tokens that a draft proposes.

    - tokens: the proposed tokens, [batch, gamma].
    - probs: the distributions [batch, gamma, vocab] from which the tokens were drawn; None if they were not
      drawn at random.
    """

    tokens: Tensor
    probs: Tensor | None


Scripted = Callable[[AcceptedTokens, torch.Generator], AcceptedTokens]
"""A function that accepts tokens with given frequencies. It replaces the decision of the models after this
decision was computed, so the cost and the next tokens stay the same.
"""


def accept_greedy(draft_tokens: Tensor, logits: Tensor, drafted: Tensor | None = None) -> AcceptedTokens:
    """Accepts the first of draft_tokens [batch, gamma] that equal the argmax of the target's logits [batch,
    gamma + 1, vocab].

    - drafted [batch]: the number of valid draft tokens of each sequence; None if all are valid.
    """
    best = logits.argmax(-1)
    count = _leading(draft_tokens == best[:, :-1], drafted)
    return AcceptedTokens(count, best.gather(1, count[:, None])[:, 0])


def accept_sampled(
    draft_tokens: Tensor,
    draft_probs: Tensor | None,
    target_probs: Tensor,
    generator: torch.Generator,
    drafted: Tensor | None = None,
) -> AcceptedTokens:
    """Accepts draft tokens by exact rejection sampling (Leviathan et al. 2023, algorithm 1). The output has
    the same distribution as sampling from the target alone.

    - draft_probs [batch, gamma, vocab]: the distributions from which draft_tokens [batch, gamma] were drawn;
      None if they were not drawn at random.
    - target_probs [batch, gamma + 1, vocab]: the target's distributions.
    - drafted [batch]: see `accept_greedy`.
    """
    if draft_probs is None:
        draft_probs = torch.zeros_like(target_probs[:, :-1]).scatter_(2, draft_tokens[..., None], 1.0)
    p = target_probs[:, :-1].gather(2, draft_tokens[..., None])[..., 0]
    q = draft_probs.gather(2, draft_tokens[..., None])[..., 0]
    # 1. A draft token is accepted with probability min(1, p / q), if all earlier ones were accepted.
    count = _leading(torch.empty_like(p).uniform_(generator=generator) * q < p, drafted)
    # 2. After a rejected token, the next token is drawn from max(0, p - q), scaled to the sum 1.
    # 3. If none was rejected, or if rounding made this difference 0, the next token is drawn from p.
    index = count[:, None, None].expand(-1, 1, target_probs.shape[-1])
    p = target_probs.gather(1, index)[:, 0]
    q = F.pad(draft_probs, (0, 0, 0, 1)).gather(1, index)[:, 0]
    if drafted is not None:
        q = q * (count < drafted)[:, None]
    over = (p - q).clamp(min=0)
    next_probs = torch.where(over.sum(1, keepdim=True) > 0, over, p)
    return AcceptedTokens(count, draw(next_probs, generator))


def _leading(accepted: Tensor, drafted: Tensor | None) -> Tensor:
    """The number of accepted tokens before the first rejected token, [batch], but at most `drafted` [batch].

    - accepted [batch, gamma]: whether each draft token is accepted.
    """
    count = accepted.long().cumprod(1).sum(1)
    return count if drafted is None else torch.minimum(count, drafted)


class Script:
    """Draws the number of accepted tokens of a chain from a given distribution, on the device."""

    def __init__(self, weights: Sequence[float], device: torch.device) -> None:
        """weights: the relative frequencies of 0, 1, ... gamma accepted tokens."""
        share = torch.tensor(weights, dtype=torch.float64)
        self._cumulative = (share.cumsum(0) / share.sum())[:-1].float().to(device)

    def __call__(self, accepted: AcceptedTokens, generator: torch.Generator) -> AcceptedTokens:
        """Random numbers of accepted tokens from 0 to gamma, with the next tokens of `accepted`."""
        u = torch.empty(len(accepted.count), 1, device=self._cumulative.device).uniform_(generator=generator)
        return AcceptedTokens((u >= self._cumulative).sum(1), accepted.next_token)


def scripted_weights(alpha: float, gamma: int) -> list[float]:
    """The frequencies of 0 .. gamma accepted tokens if each token is accepted with probability `alpha`, given
    that all earlier tokens were accepted.
    """
    return [alpha**j * (1 - alpha) for j in range(gamma)] + [alpha**gamma]
