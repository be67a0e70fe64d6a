"""Drafts that run a model, and prompt lookup.

The model is the target, which reads its cache through a sparse view, or a smaller model with its own cache.
Prompt lookup runs no model. It finds the latest earlier occurrence of the last few tokens and drafts the
tokens after this occurrence.
"""

from typing import Protocol

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.kv.base import View
from perfmodel.validate.decoder.kv.streamingllm import RollingView
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import DraftedTokens, Sampling, draw
from perfmodel.validate.decoder.state import State


class Drafter(Protocol):
    """An object that proposes tokens on the device.

    - gamma: the largest number of proposed tokens that the target can accept per iteration.
    """

    gamma: int

    @property
    def models(self) -> tuple["ViewRunner", ...]:
        """The models that the draft runs. The decoder updates their caches and views."""

    def propose(self, state: State) -> DraftedTokens:
        """The proposed tokens of one iteration."""


class ViewRunner:
    """Runs a model on uncommitted tokens. The model reads the committed tokens through `view`.

    - scratch: the keys and values of the tokens of an iteration, [2, layers, batch, kv_heads, slots,
      head_dim]. They begin at slot 0 in all sequences.
    - owns_cache: whether the runner writes its own cache (for a separate model, or with own_prefill).
      Otherwise, the verifications of the target fill the cache.
    - behind: the number of tokens by which the cache can lag that of the target: 1 with its own cache, and
      otherwise 0. The draft has not run the last drafted token when the target accepts it. The first pass of
      an iteration therefore always has this many additional tokens, so shapes stay the same.
    """

    def __init__(self, runner: Runner, view: View, slots: int, owns_cache: bool) -> None:
        self.runner = runner
        self.view = view
        self.behind = int(owns_cache)
        self.owns_cache = owns_cache
        layers, batch, heads, _, d = runner.cache.k.shape
        shape = (2, layers, batch, heads, slots, d)
        self.scratch = torch.zeros(shape, dtype=runner.model.dtype, device=runner.model.device)

    def first_step(self, state: State) -> Tensor:
        """The hidden states [batch, hidden] of the newest tokens, from which the first draft tokens
        follow.
        """
        self.view.begin()
        return self.run(state.newest(1 + self.behind))[:, -1]

    def next_step(self, step: int, token: Tensor) -> Tensor:
        """The hidden states [batch, hidden] of the tokens [batch] that were drafted last.

        - step: the number of tokens that were drafted in this iteration so far.
        """
        return self.run(token[:, None], self.behind + step)[:, -1]

    def run(
        self, tokens: Tensor, used: int = 0, ahead: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """The hidden states [batch, n, hidden] of tokens [batch, n], whose keys and values are written to the
        scratch slots.

        - used: the first of these slots.
        - ahead, sees: see `Runner.extend`. The shape of `sees` is [1, n, used + n].
        """
        cache = self.runner.cache
        end = used + tokens.shape[1]
        slots = cache.positions(cache.lengths + used, tokens.shape[1])
        positions = slots if ahead is None else cache.lengths[:, None] + ahead

        def write(index: int, projected: Projected) -> tuple[Tensor, Tensor, Tensor]:
            k, v = self.scratch[:, index, :, :, :end]
            places = cache.at(index, cache.slot(slots)) if self.owns_cache else None
            q, _, _ = projected.rotate((k[:, :, used:], v[:, :, used:]), places)
            return q, k, v

        return self.runner.attended(tokens, positions, write, sees, self.view)

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed) -> None:
        """Prepares the draft for the prompts that the target has just run. A runner with its own cache fills
        the cache by running the prompts without their last tokens.

        - tokens [batch, longest]: the prompts.
        - lengths [batch]: the lengths of the prompts.
        - observed: the target's queries of the last prompt tokens.
        """
        if isinstance(self.view, RollingView):
            passes = ViewRunner(self.runner, self.view, self.view.chunk, owns_cache=True)
            return self.view.read(tokens[:, : -self.behind], lengths - self.behind, passes.run)
        if self.owns_cache:
            _, observed = self.runner.prefill(tokens, lengths - self.behind, self.view.window)
            self.runner.cache.set_lengths(lengths - self.behind, tokens.shape[1] - self.behind)
        self.view.build(observed)

    def commit(self, count: Tensor) -> None:
        """Updates the draft after the target committed `count` [batch] tokens. The cache of the target has
        already advanced.
        """
        cache = self.runner.cache
        if self.owns_cache:
            cache.advance(count, self.view.max_accepted + 1)
        self.view.commit(cache.lengths - count, count)


class ModelDrafter:
    """Drafts gamma tokens in gamma passes of a model, which reads committed tokens through a view."""

    def __init__(self, passes: ViewRunner, gamma: int, sampling: Sampling) -> None:
        self.gamma = gamma
        self.sampling = sampling
        self.models = (passes,)
        self.passes = passes
        self.runner = passes.runner
        self.view = passes.view

    def propose(self, state: State) -> DraftedTokens:
        """Runs gamma draft steps."""
        draft_tokens = list[Tensor]()
        draft_probs = list[Tensor]()
        hidden = self.passes.first_step(state)
        for step in range(self.gamma):
            if step:
                hidden = self.passes.next_step(step, draft_tokens[-1])
            logits = self.runner.model.logits(hidden)
            if self.sampling.greedy:
                draft_tokens.append(logits.argmax(1))
            else:
                draft_probs.append(self.sampling.probabilities(logits))
                draft_tokens.append(draw(draft_probs[-1], state.generator))
        probs = torch.stack(draft_probs, 1) if draft_probs else None
        return DraftedTokens(torch.stack(draft_tokens, 1), probs)


LONGEST_MATCH = 3
"""Default of the largest number of tokens in a match."""


class NGramDrafter:
    """Prompt lookup. The draft uses the longest match of up to `longest` tokens, and the latest of equally
    long matches. Without a match, it drafts the last token gamma times.
    """

    models = ()

    def __init__(self, gamma: int, longest: int = LONGEST_MATCH) -> None:
        if longest < 1:
            raise InputError(f"--draft: ngram must match 1 or more tokens, given {longest}")
        self.gamma = gamma
        self.longest = longest

    def propose(self, state: State) -> DraftedTokens:
        """Drafts the tokens after the match. If there are fewer than gamma such tokens, it repeats them."""
        tokens = state.tokens
        last = state.length[:, None] - 1
        position = torch.arange(tokens.shape[1], device=tokens.device)
        match = position < last
        matched = torch.zeros_like(tokens)
        for back in range(self.longest):
            last_tokens = tokens.gather(1, (last - back).clamp(min=0))
            match = match & (tokens.roll(back, 1) == last_tokens) & (position >= back)
            matched += match
        best = (matched * tokens.shape[1] + position).max(1, keepdim=True)
        matched_at = torch.where(best.values >= tokens.shape[1], best.indices, last - 1)
        follow = torch.arange(self.gamma, device=tokens.device) % (last - matched_at)
        return DraftedTokens(tokens.gather(1, matched_at + 1 + follow), None)
