"""Counts the tokens that each level of a two-level draft accepts."""

from dataclasses import dataclass

import torch

from perfmodel.validate.decoder.sampling import AcceptedTokens
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.two_levels import TwoLevelDrafter


@dataclass(frozen=True)
class LevelCounts:
    """The numbers of tokens that each level accepted, summed over all unfinished sequences.

    - inner: the number of inner rounds in which the middle accepted 0, 1, ... gamma_1 tokens of the small
      model.
    - iterations: the number of verifications by the target.
    - accepted: the tokens that the target accepted in these iterations.
    - complete: the iterations in which the target accepted all drafted tokens.
    """

    inner: tuple[int, ...]
    iterations: int
    accepted: int
    complete: int

    @property
    def rounds(self) -> float:
        """The mean number of inner rounds per iteration."""
        return sum(self.inner) / max(1, self.iterations)

    @property
    def tokens_per_round(self) -> float:
        """The mean number of tokens that an inner round gains, including the middle's own token."""
        return 1 + self._from_small / max(1, sum(self.inner))

    @property
    def drafted(self) -> float:
        """The mean number of tokens that the target verifies per iteration."""
        return self.rounds * self.tokens_per_round

    @property
    def small_alpha(self) -> float:
        """The rate at which the middle accepts a token of the small model, given that it accepted all earlier
        tokens of the round.
        """
        refused = sum(self.inner[:-1])
        return self._from_small / max(1, self._from_small + refused)

    @property
    def middle_alpha(self) -> float:
        """The rate at which the target accepts a token of the middle, given that it accepted all earlier
        tokens of the iteration.
        """
        refused = self.iterations - self.complete
        return self.accepted / max(1, self.accepted + refused)

    @property
    def _from_small(self) -> int:
        return sum(accepted * rounds for accepted, rounds in enumerate(self.inner))


class LevelCounter:
    """An observer of a decoder that counts the tokens that each level accepts."""

    def __init__(self, levels: TwoLevelDrafter) -> None:
        self.levels = levels
        self._inner = torch.zeros_like(levels.inner)
        self._outer = torch.zeros(3, dtype=torch.int64, device=levels.drafted.device)

    def __call__(self, state: State, accepted: AcceptedTokens) -> None:
        """Adds the inner rounds and the verification of one iteration to the counts."""
        running = ~state.finished
        complete = running & (accepted.count == self.levels.drafted)
        accepted_tokens = accepted.count * running
        self._outer += torch.stack((running.sum(), accepted_tokens.sum(), complete.sum()))
        self._inner += self.levels.inner

    @property
    def counts(self) -> LevelCounts:
        """The counts so far. Reading them waits for the device."""
        iterations, accepted, complete = self._outer.tolist()
        return LevelCounts(tuple(self._inner.sum(0).tolist()), iterations, accepted, complete)
