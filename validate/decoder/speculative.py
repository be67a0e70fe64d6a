"""The loop of speculative decoding. An iteration drafts gamma tokens, verifies them in one pass, and keeps
the accepted tokens and one more. With gamma = 0, the loop decodes without a draft.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import Drafter
from perfmodel.validate.decoder.request import check_prompts
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import (
    AcceptedTokens,
    DraftedTokens,
    Sampling,
    Scripted,
    accept_greedy,
    accept_sampled,
    draw,
)
from perfmodel.validate.decoder.state import Generation, State, collect

READ_EVERY = 4
"""Number of iterations between two checks of whether all sequences are finished."""


class Decoder:
    """A target and a draft with their caches, for one batch size. The host does not wait for the device
    within an iteration.

    - gamma: the largest number of draft tokens that one iteration can accept.
    - queries: the number of tokens per sequence in a verification.
    - models: the models that draft.
    - eos: the tokens that end a sequence.
    - script: a function that decides acceptance instead of the models, at the same cost. With a script, `eos`
      is ignored.
    - replay: the replay of `step` if `graphs.capture` captured it; None otherwise.
    - observers: functions that receive the state and the accepted tokens before these are committed. They run
      on the device and are part of a captured CUDA graph.
    """

    def __init__(
        self,
        target: Runner,
        draft: Drafter | None,
        sampling: Sampling,
        script: Scripted | None = None,
        eos: tuple[int, ...] = (),
    ) -> None:
        self.target = target
        self.draft = draft
        self.sampling = sampling
        self.script = script
        self.gamma = draft.gamma if draft else 0
        self.models = draft.models if draft else ()
        self.queries = self.gamma + 1
        self.eos = torch.tensor([] if script else eos, dtype=torch.int64, device=target.model.device)
        self.observers: list[Callable[[State, AcceptedTokens], object]] = []
        self.replay: Callable[[State], object] | None = None

    def step(self, state: State) -> None:
        """One iteration for the whole batch, without waiting for the device. Each sequence advances by its
        own number of tokens.
        """
        drafted = self.propose(state)
        logits = self.verify(state, drafted.tokens)
        accepted = self.accept(state, drafted.tokens, drafted.probs, logits)
        self.commit(state, drafted.tokens, accepted)

    def propose(self, state: State) -> DraftedTokens:
        """The tokens that the draft proposes; none without a draft."""
        if self.draft:
            return self.draft.propose(state)
        return DraftedTokens(state.tokens[:, :0], None)

    def verify(self, state: State, draft_tokens: Tensor) -> Tensor:
        """Runs one pass of the target and returns the logits [batch, gamma + 1, vocab] after the newest token
        and after each draft token.
        """
        hidden = self.target.extend(torch.cat((state.newest(1), draft_tokens), dim=1))
        return self.target.model.logits(hidden)

    def accept(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """The number of accepted draft tokens, and the next token. The script decides the number if there is
        one. Otherwise, the models decide it.
        """
        accepted = self.judge(state, draft_tokens, draft_probs, logits)
        return accepted if self.script is None else self.script(accepted, state.generator)

    def judge(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """The accepted tokens according to the models."""
        if self.sampling.greedy:
            return accept_greedy(draft_tokens, logits)
        return accept_sampled(draft_tokens, draft_probs, self.sampling.probabilities(logits), state.generator)

    def commit(self, state: State, draft_tokens: Tensor, accepted: AcceptedTokens) -> None:
        """Records the accepted tokens and advances the caches. The new lengths do not include rejected
        tokens, so rejected tokens are never read.
        """
        for observer in self.observers:
            observer(state, accepted)
        count = state.take(draft_tokens, accepted, self.eos)
        self.target.cache.advance(count, self.gamma + 1)
        for passes in self.models:
            passes.commit(count)

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> Generation:
        """Decodes up to `new_tokens` tokens for each prompt. The prompts can differ in length. Raises
        InputError for prompts that do not fit.
        """
        state = self.start(prompts, new_tokens, seed)
        self.finish(state)
        return collect(state, prompts)

    @torch.inference_mode()
    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """Runs the prefill of target and draft. The first output token comes from the logits of the
        prefill.
        """
        cache = self.target.cache
        room = cache.capacity - self.queries
        check_prompts(prompts, new_tokens, self.target.model.spec, len(cache.lengths), room)
        state = State.from_prompts(prompts, new_tokens, self.gamma, self.target.model.device, seed)
        longest = state.tokens[:, : max(map(len, prompts))]
        window = max((passes.view.window for passes in self.models if not passes.owns_cache), default=0)
        hidden, observed = self.target.prefill(longest, state.length, window)
        for passes in self.models:
            passes.prefill(longest, state.length, observed)
        logits = self.target.model.logits(hidden)
        greedy = self.sampling.greedy
        first = logits.argmax(1) if greedy else draw(self.sampling.probabilities(logits), state.generator)
        state.append(first[:, None], torch.ones_like(state.length), self.eos)
        return state

    @torch.inference_mode()
    def finish(self, state: State, iterated: Callable[[], object] = lambda: None) -> None:
        """Iterates until every sequence is finished. The host checks this only every `READ_EVERY` iterations.
        Later iterations have no effect on finished sequences.

        - iterated: a function that is called after each iteration was enqueued on the device.
        """
        while not bool(state.finished.all()):
            for _ in range(READ_EVERY):
                self.iterate(state)
                iterated()
            self.tighten()

    def iterate(self, state: State) -> None:
        """Runs `step` or its replay, and then the periodic work of the host."""
        (self.replay or self.step)(state)
        self.refresh()

    @property
    def caches(self) -> list[KVCache]:
        """The caches of the target and of the drafting models."""
        return [self.target.cache, *(passes.runner.cache for passes in self.models if passes.owns_cache)]

    def refresh(self) -> None:
        """Runs the periodic work of the views."""
        for passes in self.models:
            passes.view.refresh()

    def tighten(self) -> None:
        """Lowers the bounds on the host to the actual lengths. The host waits for the device."""
        for cache in self.caches:
            cache.tighten()
        for passes in self.models:
            passes.view.tighten()
