"""Two levels of drafting: a small model drafts for the target with a sparse cache, and that for the target itself.

Inner rounds of gamma_1 small-model tokens, each verified by the target over its sparse cache, run until every sequence
has gamma_2 tokens or more (at most gamma_1 more); one pass of the full target verifies them. An inner round's tokens
are distributed as the sparse target's own, so that they are drafts like any other. That takes a sparse cache whose
selection does not depend on the tokens that it verifies (`View.by_query`), but for greedy decoding.
Sun et al. 2024 (TriForce), arXiv 2404.11912; `perfmodel.speculation.two_levels` predicts it.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.ahead import Ahead, AheadDraft
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import Sampling, Verdict, verify_greedy, verify_sampled
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State


@dataclass(frozen=True)
class LevelCounts:
    """Of both levels, over all unfinished sequences.

    inner: rounds in which 0, 1, ... gamma_1 small-model tokens were accepted. iterations: verifications by the full
    target; accepted: tokens that it accepted in them; complete: iterations in which it accepted all there were.
    """

    inner: tuple[int, ...]
    iterations: int
    accepted: int
    complete: int

    @property
    def rounds(self) -> float:
        """Inner rounds per iteration."""
        return sum(self.inner) / max(1, self.iterations)

    @property
    def tokens_per_round(self) -> float:
        """Tokens that an inner round gains, the sparse target's own included."""
        return 1 + sum(j * count for j, count in enumerate(self.inner)) / max(1, sum(self.inner))

    @property
    def drafted(self) -> float:
        """Tokens that a verification by the full target is given."""
        return self.rounds * self.tokens_per_round

    @property
    def tokens_per_iteration(self) -> float:
        """Tokens that an iteration gains, the full target's own included."""
        return 1 + self.accepted / max(1, self.iterations)

    @property
    def alphas(self) -> tuple[float, float]:
        """Rate at which a token is accepted if its forerunners were: of the small model, and of the sparse target."""
        gained = sum(j * count for j, count in enumerate(self.inner))
        return _share(gained, sum(self.inner[:-1])), _share(self.accepted, self.iterations - self.complete)


def _share(accepted: int, rejected: int) -> float:
    return accepted / max(1, accepted + rejected)


class Inner(Decoder):
    """The inner rounds. `chances` [batch, most + gamma_1 + 1, vocab]: what each collected token was drawn from."""

    def __init__(self, middle: Ahead, draft: AheadDraft, sampling: Sampling) -> None:
        super().__init__(middle, draft, sampling)
        self.middle, self.small = middle, draft
        exact = torch.float64 if middle.model.dtype == torch.float64 else torch.float32
        slots = 0 if sampling.greedy else draft.most + draft.gamma + 1
        shape = (len(middle.cache.lengths), slots, middle.model.spec.vocab_size)
        self.chances = torch.zeros(shape, dtype=exact, device=middle.model.device)

    def verify(self, state: State, drafted: Tensor) -> Tensor:
        """Scores [batch, gamma_1 + 1, vocab] of the target over its sparse cache."""
        return self.middle.model.logits(self.middle.follow(torch.cat((state.newest(1), drafted), dim=1)))

    def decide(self, state: State, drafted: Tensor, proposed: Tensor | None, logits: Tensor) -> Verdict:
        """As `Decoder.decide`; the distributions are kept for the outer level."""
        if self.sampling.greedy:
            return verify_greedy(drafted, logits)
        chances, cache = self.sampling.probabilities(logits), self.middle.cache
        self.chances[cache.rows, cache.positions(cache.lengths, logits.shape[1])] = chances
        return verify_sampled(drafted, proposed, chances, state.generator)


class TwoLevelDraft:
    """The outer level's draft. `count` [batch] of the proposed tokens are to be verified, `longest` at most.

    An iteration waits for the device after each inner round, to see whether another one is needed.
    """

    def __init__(self, inner: Inner, enough: int) -> None:
        """enough: gamma_2, the tokens at which a sequence waits for its verification."""
        self.inner, self.enough = inner, enough
        self.gamma = inner.small.most
        self.window = inner.middle.view.window
        self.count, self.longest = torch.zeros_like(inner.middle.cache.lengths), 0
        self.histogram = torch.zeros(inner.gamma + 1, dtype=torch.int64, device=self.count.device)

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed | None) -> None:
        """The small model runs the prompts; the target's sparse view is built."""
        self.inner.small.prefill(tokens, lengths, None)
        self.inner.middle.view.build(observed)

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Tokens [batch, gamma], of which `count` are drafted, and what they were drawn from [batch, gamma, vocab]."""
        made, ahead = self.inner, self._fork(state)
        made.middle.restart()
        made.small.ahead.restart()
        for _ in range(self.enough):
            made.step(ahead)
            self.count = ahead.length - state.length
            ahead.finished.logical_or_(self.count >= self.enough)
            done, self.longest = torch.stack((ahead.finished.all().to(self.count), self.count.max())).tolist()
            for runner in (made.middle, made.small.ahead):
                runner.bound_by(self.longest)
            if done:
                break
        self.histogram = ahead.histogram
        index = state.length[:, None] + torch.arange(self.gamma, device=state.length.device)
        chances = None if made.sampling.greedy else made.chances[:, : self.gamma]
        return ahead.tokens.gather(1, index), chances

    def _fork(self, state: State) -> State:
        """A state that goes ahead: the inner level knows no end."""
        return State(
            tokens=F.pad(state.tokens, (0, self.inner.gamma + 1)),
            length=state.length.clone(),
            limit=torch.full_like(state.length, torch.iinfo(torch.int64).max),
            finished=state.finished.clone(),
            histogram=torch.zeros_like(self.histogram),
            generator=state.generator,
        )

    def commit(self, count: Tensor) -> None:
        """The full target committed `count` [batch] tokens."""
        view = self.inner.middle.view
        view.commit(view.source.lengths - count, count)
        self.inner.small.settle(count)

    def refresh(self) -> None:
        """Periodic rebuilds of both views."""
        self.inner.middle.view.refresh()
        self.inner.small.refresh()

    def tighten(self) -> None:
        """Bounds of both views, and of the small model's cache."""
        self.inner.middle.view.tighten()
        self.inner.small.tighten()


class TwoLevelDecoder(Decoder):
    """As `Decoder`, with as many drafted tokens as the inner level collected, in each sequence its own number."""

    capturable = False

    def __init__(
        self, target: Runner, draft: TwoLevelDraft, sampling: Sampling | None = None, eos: tuple[int, ...] = ()
    ) -> None:
        super().__init__(target, draft, sampling, None, eos)
        self.levels = draft
        self._inner = torch.zeros_like(draft.histogram)
        self._outer = torch.zeros(3, dtype=torch.int64, device=target.model.device)

    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """As `Decoder.start`; what was counted is forgotten. Refuses prompts of one token."""
        if any(len(prompt) < 2 for prompt in prompts):
            raise InputError("--middle-kv: prompts must be of 2 tokens or more, given 1")
        self._inner.zero_()
        self._outer.zero_()
        return super().start(prompts, new_tokens, seed)

    def verify(self, state: State, drafted: Tensor) -> Tensor:
        """Scores [batch, longest + 1, vocab], for no more tokens than some sequence has."""
        return super().verify(state, drafted[:, : self.levels.longest])

    def decide(self, state: State, drafted: Tensor, proposed: Tensor | None, logits: Tensor) -> Verdict:
        """How many of each sequence's drafted tokens stand, and which token follows them."""
        drafted, count = drafted[:, : self.levels.longest], self.levels.count
        if proposed is None:
            return verify_greedy(drafted, logits, count)
        chances = proposed[:, : self.levels.longest]
        return verify_sampled(drafted, chances, self.sampling.probabilities(logits), state.generator, count)

    def commit(self, state: State, drafted: Tensor, verdict: Verdict) -> None:
        """As `Decoder.commit`; both levels are counted."""
        on = ~state.finished
        complete = on & (verdict.accepted == self.levels.count)
        self._outer += torch.stack((on.sum(), (verdict.accepted * on).sum(), complete.sum()))
        self._inner += self.levels.histogram
        super().commit(state, drafted, verdict)

    def counts(self) -> LevelCounts:
        """What was counted since `start`; waits for the device."""
        return LevelCounts(tuple(self._inner.tolist()), *self._outer.tolist())
