"""The loop: draft gamma tokens, verify them in one pass, keep what stands and one more. Plain decoding: gamma
= 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import Drafter
from perfmodel.validate.decoder.generation import Generation, collect
from perfmodel.validate.decoder.recording import Record, replayed
from perfmodel.validate.decoder.request import check_prompts
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import (
    AcceptedTokens,
    Sampling,
    Scripted,
    accept_greedy,
    accept_sampled,
    draw,
)
from perfmodel.validate.decoder.state import State

READ_EVERY = 4


class Decoder:
    """Target and draft with their caches, made for one batch size.

    gamma: most draft tokens that one iteration can accept; queries: tokens that a verification runs; models:
    those that draft. eos: tokens that end a sequence. script: decides acceptance instead of the models, at
    the same cost (EOS is then ignored). replay: of `step`, where `graphs.capture` made one. observers: are
    called with what is about to be committed, on the device, as part of a captured CUDA graph. Nothing in an
    iteration waits for the device; `generate` looks every `READ_EVERY` iterations whether all are done.
    """

    def __init__(
        self,
        target: Runner,
        draft: Drafter | None,
        sampling: Sampling,
        script: Scripted | None = None,
        eos: tuple[int, ...] = (),
    ) -> None:
        self.target, self.draft, self.sampling, self.script = target, draft, sampling, script
        self.gamma, self.models = (draft.gamma, draft.models) if draft else (0, ())
        self.queries = self.gamma + 1
        self.eos = torch.tensor([] if script else eos, dtype=torch.int64, device=target.model.device)
        self.observers: list[Callable[[State, AcceptedTokens], object]] = []
        self.replay: Callable[[State], object] | None = None

    def step(self, state: State) -> None:
        """One iteration for the whole batch, on the device alone: sequences advance by their own counts."""
        self.conclude(state, *self.propose(state))

    def replayed(self, state: State, record: Record) -> Callable[[State], object]:
        """`step`, from now on a replay where it is called on `state`."""
        return replayed(self.step, state, record)

    def conclude(self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None) -> None:
        """What follows drafting: verify, accept and commit."""
        logits = self.verify(state, draft_tokens)
        accepted = self.accept(state, draft_tokens, draft_probs, logits)
        self.commit(state, draft_tokens, accepted)

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """draft_tokens [batch, gamma], and the draft_probs [batch, gamma, vocab] that they were drawn from,
        if any.
        """
        return self.draft.propose(state) if self.draft else (state.tokens[:, :0], None)

    def verify(self, state: State, draft_tokens: Tensor) -> Tensor:
        """One pass of the target: logits [batch, gamma + 1, vocab] after the newest token and each draft
        token.
        """
        hidden = self.target.extend(torch.cat((state.newest(1), draft_tokens), dim=1))
        return self.target.model.logits(hidden)

    def accept(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """How many draft tokens stand, and which token follows them: as the models judge, or as scripted."""
        accepted = self.judge(state, draft_tokens, draft_probs, logits)
        return accepted if self.script is None else self.script(accepted, state.generator)

    def judge(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """What the models say."""
        if self.sampling.greedy:
            return accept_greedy(draft_tokens, logits)
        probs = self.sampling.probabilities(logits)
        return accept_sampled(draft_tokens, draft_probs, probs, state.generator)

    def commit(self, state: State, draft_tokens: Tensor, accepted: AcceptedTokens) -> None:
        """Record the tokens and advance the caches; what was refused is rolled back by not advancing over
        it.
        """
        for observer in self.observers:
            observer(state, accepted)
        count = state.take(draft_tokens, accepted, self.eos)
        self.target.cache.advance(count, self.gamma + 1)
        for passes in self.models:
            passes.commit(count)

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> Generation:
        """Decode up to `new_tokens` for each prompt; prompts may differ in length."""
        state = self.start(prompts, new_tokens, seed)
        self.finish(state)
        return collect(state, prompts)

    @torch.inference_mode()
    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """Prefill target and draft, and take the first token from the prefill's own logits."""
        cache = self.target.cache
        check_prompts(
            prompts, new_tokens, self.target.model.spec, len(cache.lengths), cache.capacity - self.queries
        )
        state = State.from_prompts(prompts, new_tokens, self.gamma, self.target.model.device, seed)
        longest = state.tokens[:, : max(map(len, prompts))]
        window = max((passes.view.window for passes in self.models if not passes.own), default=0)
        hidden, observed = self.target.prefill(longest, state.length, window)
        for passes in self.models:
            passes.prefill(longest, state.length, observed)
        logits, greedy = self.target.model.logits(hidden), self.sampling.greedy
        first = logits.argmax(-1) if greedy else draw(self.sampling.probabilities(logits), state.generator)
        state.append(first[:, None], torch.ones_like(state.length), self.eos)
        return state

    @torch.inference_mode()
    def finish(self, state: State, iterated: Callable[[], object] = lambda: None) -> None:
        """Iterate until every sequence is done; up to `READ_EVERY` - 1 iterations more are run for nothing.

        iterated: called when an iteration was enqueued.
        """
        while not bool(state.finished.all()):
            for _ in range(READ_EVERY):
                self.iterate(state)
                iterated()
            self.tighten()

    def iterate(self, state: State) -> None:
        """`step`, or its replay, and what the host does after it."""
        (self.replay or self.step)(state)
        self.refresh()

    @property
    def caches(self) -> list[KVCache]:
        """The target's, and those of models that draft."""
        return [self.target.cache, *(passes.runner.cache for passes in self.models if passes.own)]

    def refresh(self) -> None:
        """Periodic work of the views."""
        for passes in self.models:
            passes.view.refresh()

    def tighten(self) -> None:
        """Bring host-side bounds down to what was really accepted; waits for the device."""
        for cache in self.caches:
            cache.tighten()
        for passes in self.models:
            passes.view.tighten()
