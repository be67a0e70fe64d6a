"""Two levels of drafting (TriForce). A small model drafts for the *middle*, which is the target with a sparse
cache. The target with the full cache verifies the tokens of the middle.

In an inner round, the small model drafts gamma_1 tokens, and the middle verifies them. Inner rounds are
repeated until every sequence has collected at least gamma_2 tokens. A sequence can collect up to gamma_1 more
than that. Then one pass of the target verifies the collected tokens.

The tokens of an inner round have the distribution of the middle, so the target can verify them like other
drafts. For sampling, the middle's selection of cached tokens must not depend on the tokens that it verifies
(`View.by_query`).

Source: Sun et al. 2024 (TriForce), arXiv 2404.11912. `perfmodel.speculation.two_levels` predicts the times.
"""

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.drafts import ModelDrafter, ViewRunner
from perfmodel.validate.decoder.kv.base import View
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.request import check_two_tokens
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import (
    AcceptedTokens,
    DraftedTokens,
    Sampling,
    accept_greedy,
    accept_sampled,
)
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State


class CollectingRunner(ViewRunner):
    """A `ViewRunner` whose first scratch slots contain the tokens that a sequence has collected in this
    iteration.

    - collected [batch]: the number of collected tokens.

    If the runner has its own cache, this cache lags by two tokens. The reason is that the target can accept
    all collected tokens and then adds its own token.
    """

    def __init__(self, runner: Runner, view: View, slots: int, owns_cache: bool) -> None:
        super().__init__(runner, view, slots, owns_cache)
        self.behind = 2 * int(owns_cache)
        self.collected = torch.zeros_like(runner.cache.lengths)

    def run(
        self, tokens: Tensor, used: int = 0, ahead: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """See `ViewRunner.run`. The tokens are a chain after the collected tokens, so `ahead` and `sees` are
        not used.
        """
        cache = self.runner.cache
        slots = cache.positions(self.collected + used, tokens.shape[1])
        positions = cache.lengths[:, None] + slots
        earlier = torch.arange(self.scratch.shape[4], device=tokens.device) <= slots[:, :, None]

        def write(index: int, projected: Projected) -> tuple[Tensor, Tensor, Tensor]:
            k, v = self.scratch[:, index]
            places = cache.at(index, cache.slot(positions)) if self.owns_cache else None
            q, *new = projected.rotate(None, places)
            Slots(k, v, cache.rows, slots).write(*new)
            return q, k, v

        return self.runner.attended(tokens, positions, write, earlier, self.view)


class TwoLevelDrafter:
    """The two-level draft: `small` drafts for `middle`, which is the target with a sparse cache. The host
    waits for the device after each inner round, because the middle's verification determines whether another
    round is needed.

    - enough: gamma_2, the number of collected tokens from which on a sequence waits for the target.
    - gamma: gamma_1 + gamma_2, the largest number of tokens that a sequence can collect.
    - drafted [batch]: the number of collected tokens of each sequence.
    - inner [batch, gamma_1 + 1]: the number of inner rounds of this iteration in which 0, 1, ... gamma_1
      tokens of the small model were accepted.
    """

    def __init__(
        self,
        middle: CollectingRunner,
        small: CollectingRunner,
        gammas: tuple[int, int],
        sampling: Sampling,
    ) -> None:
        gamma_1, self.enough = gammas
        self.gamma = gamma_1 + self.enough
        self.middle = middle
        self.small = ModelDrafter(small, gamma_1, sampling)
        self.sampling = sampling
        self.models = (small, middle)
        self.drafted = torch.zeros_like(middle.collected)
        shape = (len(self.drafted), gamma_1 + 1)
        self.inner = torch.zeros(shape, dtype=torch.int64, device=self.drafted.device)

    def propose(self, state: State) -> DraftedTokens:
        """The drafted tokens of one iteration, padded to the longest draft. Only the first `drafted` tokens
        of a sequence are valid.
        """
        for passes in self.models:
            passes.collected.zero_()
        self.middle.view.begin()
        ahead = self._ahead(state)
        probs: Tensor | None = None
        for _ in range(self.enough):
            collected = self.middle.collected.clone()
            of_round = self._round(ahead)
            if of_round is not None:
                probs = self._appended(probs, of_round, collected)
            self.drafted.copy_(ahead.length - state.length)
            ahead.finished.logical_or_(self.drafted >= self.enough)
            if bool(ahead.finished.all()):
                break
        self.inner.copy_(ahead.histogram)
        longest = max(self.enough, int(self.drafted.max()))
        positions = state.length[:, None] + torch.arange(longest, device=state.length.device)
        drafted_probs = None if probs is None else probs[:, :longest]
        return DraftedTokens(ahead.tokens.gather(1, positions), drafted_probs)

    def _appended(self, probs: Tensor | None, of_round: Tensor, collected: Tensor) -> Tensor:
        """The distributions of an inner round after those of earlier rounds.

        - probs [batch, slots, vocab]: the distributions of earlier rounds, changed in place; None before the
          first round. There is room for a round after the longest draft, as in `_ahead`.
        - of_round [batch, gamma_1 + 1, vocab]: the middle's distributions.
        - collected [batch]: the number of tokens that each sequence had collected before the round.
        """
        batch, tokens, vocab = of_round.shape
        if probs is None:
            probs = of_round.new_zeros(batch, self.gamma + tokens, vocab)
        rows = torch.arange(batch, device=of_round.device)[:, None]
        probs[rows, self.middle.runner.cache.positions(collected, tokens)] = of_round
        return probs

    def _ahead(self, state: State) -> State:
        """A copy of the state, which inner rounds extend. It has no limit, and a sequence is finished when it
        has collected enough tokens. There is room for another inner round, because a finished sequence also
        writes tokens in it, which are discarded.
        """
        room = self.small.gamma + 1
        return State(
            tokens=torch.nn.functional.pad(state.tokens, (0, room)),
            length=state.length.clone(),
            limit=torch.full_like(state.length, torch.iinfo(torch.int64).max),
            finished=state.finished.clone(),
            histogram=torch.zeros_like(self.inner),
            generator=state.generator,
        )

    def _round(self, ahead: State) -> Tensor | None:
        """Runs one inner round and adds the accepted tokens to `ahead`.

        Returns the middle's distributions [batch, gamma_1 + 1, vocab]; None in greedy decoding.
        """
        draft_tokens, draft_probs = self.small.propose(ahead)
        hidden = self.middle.run(torch.cat((ahead.newest(1), draft_tokens), 1))
        logits = self.middle.runner.model.logits(hidden)
        middle_probs = None
        if self.sampling.greedy:
            accepted = accept_greedy(draft_tokens, logits)
        else:
            middle_probs = self.sampling.probabilities(logits)
            accepted = accept_sampled(draft_tokens, draft_probs, middle_probs, ahead.generator)
        no_end = torch.empty(0, dtype=torch.int64, device=logits.device)
        count = ahead.take(draft_tokens, accepted, no_end)
        for passes in self.models:
            passes.collected.add_(count)
        return middle_probs


class TwoLevelDecoder(Decoder):
    """A `Decoder` whose draft has a different number of tokens in each sequence."""

    levels: TwoLevelDrafter

    def __init__(
        self, target: Runner, draft: TwoLevelDrafter, sampling: Sampling, eos: tuple[int, ...] = ()
    ) -> None:
        super().__init__(target, draft, sampling, None, eos)
        self.levels = draft

    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """See `Decoder.start`. Raises InputError for prompts of one token."""
        check_two_tokens(prompts)
        return super().start(prompts, new_tokens, seed)

    def judge(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """See `Decoder.judge`. Each sequence has its own number of draft tokens."""
        drafted = self.levels.drafted
        if self.sampling.greedy:
            return accept_greedy(draft_tokens, logits, drafted)
        probs = self.sampling.probabilities(logits)
        return accept_sampled(draft_tokens, draft_probs, probs, state.generator, drafted)
