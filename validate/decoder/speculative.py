"""The loop: draft gamma tokens, verify them in one pass, keep what stands and one more. Plain decoding: gamma = 0."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import Draft
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import Accepted, Sampling, Scripted, accept_greedy, accept_sampled, draw
from perfmodel.validate.decoder.state import State, check_prompts

READ_EVERY = 4


@dataclass(frozen=True)
class Generation:
    """tokens: what was generated, per sequence, an EOS included; histograms: per sequence, see `State`."""

    tokens: list[list[int]]
    histograms: list[list[int]]

    @property
    def histogram(self) -> list[int]:
        """Iterations, over all sequences, in which 0, 1, ... gamma draft tokens were accepted."""
        return [sum(counts) for counts in zip(*self.histograms, strict=True)]

    @property
    def iterations(self) -> int:
        """Of the loop, until the last sequence was finished."""
        return max(map(sum, self.histograms))

    @property
    def tokens_per_iteration(self) -> float:
        """Mean tokens gained per iteration and sequence, what an EOS or the limit cut off left out; 0 without any."""
        emitted = sum(max(0, len(row) - 1) for row in self.tokens)  # the first token is prefill's
        return emitted / max(1, sum(self.histogram))

    @property
    def alpha(self) -> float | None:
        """Rate at which a draft token is accepted if all before it were; None where none was drafted."""
        accepted = sum(j * count for j, count in enumerate(self.histogram))
        tried = accepted + sum(self.histogram[:-1])
        return accepted / tried if tried and len(self.histogram) > 1 else None


class Decoder:
    """Target and draft with their caches, made for one batch size.

    script: decides acceptance instead of the models, at the same cost (EOS is then ignored).
    gamma: most draft tokens that one iteration can accept; queries: tokens that a verification runs; models: those
    that draft.
    captured: a state and the replay of `step` on it, where `graphs.capture` made one.
    capturable: whether `step` can be recorded as a CUDA graph.
    Nothing in an iteration waits for the device; `generate` looks every `READ_EVERY` iterations whether all are done.
    """

    capturable = True

    def __init__(
        self,
        target: Runner,
        draft: Draft | None = None,
        sampling: Sampling | None = None,
        script: Scripted | None = None,
        eos: tuple[int, ...] = (),
    ) -> None:
        self.target, self.draft, self.sampling, self.script = target, draft, sampling or Sampling(), script
        self.gamma, self.models = (draft.gamma, draft.models) if draft else (0, ())
        self.queries = self.gamma + 1
        self.captured: tuple[State, Callable[[], object]] | None = None
        self.eos = torch.tensor([] if script else eos, dtype=torch.int64, device=target.model.device)

    def step(self, state: State) -> None:
        """One iteration for the whole batch, on the device alone: sequences advance by their own counts."""
        draft_tokens, draft_probs = self.propose(state)
        logits = self.verify(state, draft_tokens)
        accepted = self.accept(state, draft_tokens, draft_probs, logits)
        self.commit(state, draft_tokens, accepted)

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """draft_tokens [batch, gamma], and the draft_probs [batch, gamma, vocab] that they were drawn from, if any."""
        return self.draft.propose(state) if self.draft else (state.tokens[:, :0], None)

    def verify(self, state: State, draft_tokens: Tensor) -> Tensor:
        """One pass of the target: logits [batch, gamma + 1, vocab] after the newest token and each draft token."""
        hidden = self.target.extend(torch.cat((state.newest(1), draft_tokens), dim=1))
        return self.target.model.logits(hidden)

    def accept(self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor) -> Accepted:
        """How many draft tokens stand, and which token follows them: as the models judge, or as scripted."""
        accepted = self.judge(state, draft_tokens, draft_probs, logits)
        return accepted if self.script is None else self.script.instead_of(accepted, state.generator)

    def judge(self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor) -> Accepted:
        """What the models say."""
        if self.sampling.greedy:
            return accept_greedy(draft_tokens, logits)
        return accept_sampled(draft_tokens, draft_probs, self.sampling.probabilities(logits), state.generator)

    def commit(self, state: State, draft_tokens: Tensor, accepted: Accepted) -> None:
        """Record the tokens and advance the caches; what was refused is rolled back by not advancing over it."""
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
        check_prompts(prompts, new_tokens, self.target.model.spec, len(cache.lengths), cache.capacity - self.queries)
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
    def finish(self, state: State, after_each: Callable[[], object] = lambda: None) -> None:
        """Iterate until every sequence is done; up to `READ_EVERY` - 1 iterations more are run for nothing."""
        while not bool(state.finished.all()):
            for _ in range(READ_EVERY):
                self.iterate(state)
                after_each()
            self.tighten()

    def iterate(self, state: State) -> None:
        """`step`, or its replay, and what the host does after it."""
        if self.captured is not None and self.captured[0] is state:
            self.captured[1]()
        else:
            self.step(state)
        self.refresh()

    def counts(self) -> object:
        """What a loop of another kind counted since `start`, beside the histogram; waits for the device."""
        return None

    def tally(self) -> dict[str, int]:
        """What the host counted so far, where passes and their tokens are not the same in every iteration."""
        return {}

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


def collect(state: State, prompts: list[list[int]]) -> Generation:
    """Bring the result to the host."""
    rows, lengths = state.tokens.tolist(), state.length.tolist()
    new = [row[len(prompt) : length] for row, prompt, length in zip(rows, prompts, lengths, strict=True)]
    return Generation(new, state.histogram.tolist())


def check_vocabulary(target: Runner, draft: Runner) -> None:
    """Refuse a draft model whose tokens are not the target's."""
    ours, theirs = target.model.spec, draft.model.spec
    if ours.vocab_size != theirs.vocab_size:
        raise InputError(
            f"--draft: {theirs.name} must have the {ours.vocab_size} tokens of {ours.name}, given {theirs.vocab_size}"
        )
