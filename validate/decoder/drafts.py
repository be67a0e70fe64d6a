"""Drafts that run a model (the target through a sparse view of its cache, or a smaller one with its own
cache), and prompt lookup.

Prompt lookup runs no model: it drafts the tokens that followed the latest earlier occurrence of the last few.
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
    """Proposes tokens, entirely on the device."""

    gamma: int

    @property
    def models(self) -> tuple["ViewRunner", ...]:
        """The models that it runs. The decoder keeps their caches and views up to date."""

    def propose(self, state: State) -> DraftedTokens:
        """The tokens of one iteration."""


class ViewRunner:
    """Runs a model on uncommitted tokens, and reads committed ones through `view`.

    scratch: keys and values [2, layers, batch, kv_heads, slots, head_dim] of the tokens of an iteration, from
    slot 0 on, the same slots for all sequences. owns_cache: whether the runner has a cache of its own (a
    separate model, or own_prefill), which it writes; otherwise verification fills the cache. behind: number
    of tokens by which an own cache is behind the target's. Where all drafts were accepted, the last one was
    never an input. The first pass of an iteration always takes this many more tokens, so shapes stay the
    same.
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
        """Hidden state [batch, hidden] of the newest token, from which drafting begins."""
        self.view.begin()
        return self.run(state.newest(1 + self.behind))[:, -1]

    def next_step(self, step: int, token: Tensor) -> Tensor:
        """Hidden state [batch, hidden] of the token [batch] that was drafted in step `step`, from 1 on."""
        return self.run(token[:, None], self.behind + step)[:, -1]

    def run(
        self, tokens: Tensor, used: int = 0, ahead: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """Hidden states [batch, n, hidden] of tokens [batch, n], which occupy the scratch slots from `used`
        on.

        ahead, sees: see `Runner.extend`; sees is [1, n, used + n].
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
        """Prepares for prompts tokens [batch, longest] of `lengths` [batch], which the target has just run.

        An own cache is filled by running the prompts without their last tokens.
        """
        if isinstance(self.view, RollingView):
            passes = ViewRunner(self.runner, self.view, self.view.chunk, owns_cache=True)
            return self.view.read(tokens[:, : -self.behind], lengths - self.behind, passes.run)
        if self.owns_cache:
            _, observed = self.runner.prefill(tokens, lengths - self.behind, self.view.window)
            self.runner.cache.set_lengths(lengths - self.behind, tokens.shape[1] - self.behind)
        self.view.build(observed)

    def commit(self, count: Tensor) -> None:
        """Updates the draft after the target committed `count` [batch] tokens; its cache has advanced
        already.
        """
        cache = self.runner.cache
        if self.owns_cache:
            cache.advance(count, self.view.max_accepted + 1)
        self.view.commit(cache.lengths - count, count)


class ModelDrafter:
    """gamma passes of a model, reading committed tokens through a view."""

    def __init__(self, passes: ViewRunner, gamma: int, sampling: Sampling) -> None:
        self.gamma = gamma
        self.sampling = sampling
        self.models = (passes,)
        self.passes = passes
        self.runner = passes.runner
        self.view = passes.view

    def propose(self, state: State) -> DraftedTokens:
        """gamma draft steps."""
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
"""Most tokens of a match, if the draft's name does not state it."""


class NGramDrafter:
    """Takes the longest match of up to `longest` tokens, and among equals the latest. Without a match the
    last token repeats.
    """

    models = ()

    def __init__(self, gamma: int, longest: int = LONGEST_MATCH) -> None:
        if longest < 1:
            raise InputError(f"--draft: ngram must match 1 or more tokens, given {longest}")
        self.gamma = gamma
        self.longest = longest

    def propose(self, state: State) -> DraftedTokens:
        """Drafts the tokens that followed the match. If the match is so near the end that too few follow,
        they repeat.
        """
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
