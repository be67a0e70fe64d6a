"""The loop: draft gamma tokens, verify them in one pass, keep what stands and one more. Plain decoding: gamma = 0."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.drafts import Draft
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import Sampling, Script, Verdict, draw, verify_greedy, verify_sampled
from perfmodel.validate.decoder.state import State, check_prompts

READ_EVERY = 4


@dataclass(frozen=True)
class Generation:
    """tokens: what was generated, per sequence, an EOS included; histogram: see `State`; iterations of the loop."""

    tokens: list[list[int]]
    histogram: list[int]
    iterations: int

    @property
    def tokens_per_iteration(self) -> float:
        """Mean tokens gained per iteration and sequence, the bonus token included (Omega)."""
        return 1 + sum(j * c for j, c in enumerate(self.histogram)) / max(1, sum(self.histogram))


class Decoder:
    """Target and draft with their caches, made for one batch size.

    script: decide acceptance by stated frequencies instead of by the models, at the same cost (EOS is then ignored).
    gamma: most drafted tokens that one iteration can accept; queries: tokens that a verification runs.
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
        script: Script | None = None,
        eos: tuple[int, ...] = (),
    ) -> None:
        self.target, self.draft, self.sampling, self.script = target, draft, sampling or Sampling(), script
        self.gamma = draft.gamma if draft else 0
        self.queries = self.gamma + 1
        self.captured: tuple[State, Callable[[], object]] | None = None
        self.eos = torch.tensor([] if script else eos, dtype=torch.int64, device=target.model.device)

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> Generation:
        """Decode up to `new_tokens` for each prompt; prompts may differ in length."""
        state = self.start(prompts, new_tokens, seed)
        return collect(state, prompts, self.finish(state))

    @torch.inference_mode()
    def finish(self, state: State) -> int:
        """Iterate until every sequence is done; returns how many iterations that took."""
        iterations = 0
        while not bool(state.finished.all()):
            for _ in range(READ_EVERY):
                self.iterate(state)
            iterations += READ_EVERY
            self.tighten()
        return iterations

    @torch.inference_mode()
    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """Prefill target and draft, and take the first token from the prefill's own scores."""
        cache = self.target.cache
        check_prompts(prompts, new_tokens, self.target.model.spec, len(cache.lengths), cache.capacity - self.queries)
        state = State.from_prompts(prompts, new_tokens, self.gamma, self.target.model.device, seed)
        longest = state.tokens[:, : max(map(len, prompts))]
        hidden, observed = self.target.prefill(longest, state.length, self.draft.window if self.draft else 0)
        self._open(state, longest, hidden, observed)
        return state

    def _open(self, state: State, prompts: Tensor, hidden: Tensor, observed: Observed | None) -> None:
        if self.draft:
            self.draft.prefill(prompts, state.length, observed)
        logits = self.target.model.logits(hidden)
        greedy = self.sampling.greedy
        first = logits.argmax(-1) if greedy else draw(self.sampling.probabilities(logits), state.generator)
        state.append(first[:, None], torch.ones_like(state.length), self.eos)

    def iterate(self, state: State) -> None:
        """One iteration for the whole batch; sequences advance by their own counts."""
        if self.captured is not None and self.captured[0] is state:
            self.captured[1]()
        else:
            self.step(state)
        self.refresh()

    def step(self, state: State) -> None:
        """The part of an iteration that runs on the device alone, and that a CUDA graph can hold."""
        drafted, proposed = self.propose(state)
        self.commit(state, drafted, self.decide(state, drafted, proposed, self.verify(state, drafted)))

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """gamma draft steps: tokens [batch, gamma] and their distributions, if drawn."""
        if self.draft:
            return self.draft.propose(state)
        return state.tokens[:, :0], None

    def verify(self, state: State, drafted: Tensor) -> Tensor:
        """Scores [batch, gamma + 1, vocab] after the newest token and after each drafted one."""
        hidden = self.target.extend(torch.cat((state.newest(1), drafted), dim=1))
        return self.target.model.logits(hidden)

    def decide(self, state: State, drafted: Tensor, proposed: Tensor | None, logits: Tensor) -> Verdict:
        """How many drafted tokens stand, and which token follows them."""
        if self.sampling.greedy:
            verdict = verify_greedy(drafted, logits)
        else:
            verdict = verify_sampled(drafted, proposed, self.sampling.probabilities(logits), state.generator)
        if self.script is None:
            return verdict
        return Verdict(self.script.accepted(len(drafted), state.generator), verdict.bonus)

    def commit(self, state: State, drafted: Tensor, verdict: Verdict) -> None:
        """Record the tokens and advance the caches; what was rejected is rolled back by not advancing over it."""
        slot = torch.arange(self.gamma + 1, device=drafted.device)
        state.histogram.add_(((verdict.accepted[:, None] == slot) & ~state.finished[:, None]).sum(0))
        padded = torch.cat((drafted, verdict.bonus[:, None]), dim=1)
        emitted = torch.where(slot < verdict.accepted[:, None], padded, verdict.bonus[:, None])
        count = state.append(emitted, verdict.accepted + 1, self.eos)
        self.target.cache.advance(count, self.gamma + 1)
        if self.draft:
            self.draft.commit(count)

    def counts(self) -> object:
        """What a loop of another kind counted since `start`, beside the histogram; waits for the device."""
        return None

    def refresh(self) -> None:
        """The draft's periodic work."""
        if self.draft:
            self.draft.refresh()

    def tighten(self) -> None:
        """Bring host-side bounds down to what was really accepted; waits for the device."""
        self.target.cache.tighten()
        if self.draft:
            self.draft.tighten()


def collect(state: State, prompts: list[list[int]], iterations: int) -> Generation:
    """Bring the result to the host."""
    rows, lengths = state.tokens.tolist(), state.length.tolist()
    new = [row[len(prompt) : length] for row, prompt, length in zip(rows, prompts, lengths, strict=True)]
    return Generation(new, state.histogram.tolist(), iterations)


def check_vocabulary(target: Runner, draft: Runner) -> None:
    """Refuse a draft model whose tokens are not the target's."""
    ours, theirs = target.model.spec, draft.model.spec
    if ours.vocab_size != theirs.vocab_size:
        raise InputError(
            f"--draft: {theirs.name} must have the {ours.vocab_size} tokens of {ours.name}, given {theirs.vocab_size}"
        )
