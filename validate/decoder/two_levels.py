"""Two levels of drafting: a small model drafts for the target with a sparse cache, and that for the target
itself.

Inner rounds of gamma_1 small-model tokens, each verified by the target over its sparse cache, run until every
sequence has gamma_2 tokens or more (at most gamma_1 more); one pass of the full target verifies them. An
inner round's tokens are distributed as the sparse target's own, so that they are drafts like any other. That
takes a sparse cache whose selection does not depend on the tokens that it verifies (`View.by_query`), but for
greedy decoding. Sun et al. 2024 (TriForce), arXiv 2404.11912; `perfmodel.speculation.two_levels` predicts it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.drafts import ModelDrafter, ViewRunner
from perfmodel.validate.decoder.kv.base import View
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.recording import Record, replayed
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import (
    AcceptedTokens,
    Sampling,
    Scripted,
    accept_greedy,
    accept_sampled,
)
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State


class CollectingRunner(ViewRunner):
    """As `ViewRunner`, whose scratch holds what each sequence has `collected` [batch], and behind that the
    new tokens.

    An own cache lacks two tokens: all that was collected may be accepted, and one token more.
    """

    def __init__(self, runner: Runner, view: View, slots: int, own: bool) -> None:
        super().__init__(runner, view, slots, own)
        self.behind = 2 * int(own)
        self.collected = torch.zeros_like(runner.cache.lengths)

    def run(
        self, tokens: Tensor, used: int = 0, ahead: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """As `ViewRunner.run`, of chains."""
        cache = self.runner.cache
        places = cache.positions(self.collected + used, tokens.shape[1])
        positions = cache.lengths[:, None] + places
        sees = torch.arange(self.scratch.shape[4], device=tokens.device) <= places[:, :, None]

        def write(index: int, projected: Projected) -> tuple[Tensor, Tensor, Tensor]:
            k, v = self.scratch[:, index]
            q, *new = projected.rotate(None, self.own_slots(index, positions))
            Slots(k, v, cache.rows, places).write(*new)
            return q, k, v

        return self.runner.attended(tokens, positions, write, sees, self.view)


class TwoLevelDrafter:
    """The outer level's draft: `small` drafts for `middle`, the target over a sparse cache.

    gamma: the most tokens that can be collected, at `tokens` [batch, gamma]. drafted [batch]: how many were,
    `longest` at most; histogram: inner rounds of the iteration by accepted tokens of the small model, [batch,
    small.gamma + 1]. probs [batch, slots, vocab]: what each of them was drawn from. rounds, verified: inner
    rounds run so far, and tokens a sequence that the full target was given to verify. An iteration waits for
    the device after each inner round, to see whether another one is needed; what lies between is on the
    device alone, at the same places in every iteration.
    """

    def __init__(
        self,
        middle: CollectingRunner,
        small: CollectingRunner,
        gammas: tuple[int, int],
        sampling: Sampling,
        script: Scripted | None = None,
    ) -> None:
        """gammas: tokens of an inner round, and those at which a sequence waits for its verification. script:
        of the inner level.
        """
        self.middle, self.small, self.enough = middle, ModelDrafter(small, gammas[0], sampling), gammas[1]
        self.sampling, self.script, self.models = sampling, script, (small, middle)
        self.gamma, self.rounds, self.verified = sum(gammas), 0, 0
        model, batch = middle.runner.model, len(middle.collected)
        slots = 0 if sampling.greedy else self.gamma + gammas[0] + 1
        exact = torch.float64 if model.dtype == torch.float64 else torch.float32
        self.probs = torch.zeros((batch, slots, model.spec.vocab_size), dtype=exact, device=model.device)
        self.drafted, self.longest = torch.zeros_like(middle.collected), self.gamma
        self.histogram = torch.zeros(batch, gammas[0] + 1, dtype=torch.int64, device=model.device)
        self.tokens = torch.zeros(batch, self.gamma, dtype=torch.int64, device=model.device)
        self._told = torch.zeros(2, dtype=torch.int64, device=model.device)
        self._ahead: State | None = None
        self._replays: tuple[Callable[[State], object], Callable[[State], object]] | None = None

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """draft_tokens [batch, longest], of which `drafted` are meant, and draft_probs [batch, longest,
        vocab].
        """
        begin, one_round = self._replays or (self._begin, self._round)
        begin(state)
        for _ in range(self.enough):
            one_round(state)
            self.rounds += 1
            done, self.longest = self._told.tolist()
            if done:
                break
        self.verified += self.longest + 1
        return self.proposed(self.longest)

    def proposed(self, width: int) -> tuple[Tensor, Tensor | None]:
        """The first `width` draft tokens of all sequences, as `propose` returns them."""
        return self.tokens[:, :width], None if self.sampling.greedy else self.probs[:, :width]

    def replay_of(self, state: State, record: Record) -> None:
        """From now on what `propose` runs on `state` between two looks at the device is a replay."""
        self._replays = replayed(self._begin, state, record), replayed(self._round, state, record)

    def _begin(self, state: State) -> None:
        """Nothing is collected yet."""
        for passes in self.models:
            passes.collected.zero_()
        ahead = self._ahead_of(state)
        for name in ("length", "finished"):
            getattr(ahead, name).copy_(getattr(state, name))
        ahead.tokens[:, : state.tokens.shape[1]].copy_(state.tokens)
        self.histogram.zero_()
        self.middle.view.begin()

    def _ahead_of(self, state: State) -> State:
        """A state that goes ahead: the inner level knows no end. Of one state always the same, as graphs
        need.
        """
        batch, room = state.tokens.shape[0], state.tokens.shape[1] + self.small.gamma + 1
        ahead = self._ahead
        if ahead is None or ahead.tokens.shape[1] != room or ahead.generator is not state.generator:
            self._ahead = ahead = State(
                tokens=state.tokens.new_zeros(batch, room),
                length=torch.zeros_like(state.length),
                limit=torch.full_like(state.length, torch.iinfo(torch.int64).max),
                finished=torch.zeros_like(state.finished),
                histogram=self.histogram,
                generator=state.generator,
            )
        return ahead

    def _round(self, state: State) -> None:
        """Draft with the small model, verify with the sparse target, accept, collect what stands, and tell
        the host.
        """
        ahead = self._ahead_of(state)
        draft_tokens, draft_probs = self.small.propose(ahead)
        logits = self.middle.runner.model.logits(
            self.middle.run(torch.cat((ahead.newest(1), draft_tokens), 1))
        )
        if self.sampling.greedy:
            accepted = accept_greedy(draft_tokens, logits)
        else:
            probs, cache = self.sampling.probabilities(logits), self.middle.runner.cache
            self.probs[cache.rows, cache.positions(self.middle.collected, logits.shape[1])] = probs
            accepted = accept_sampled(draft_tokens, draft_probs, probs, ahead.generator)
        if self.script is not None:
            accepted = self.script(accepted, ahead.generator)
        count = ahead.take(draft_tokens, accepted, torch.empty(0, dtype=torch.int64, device=logits.device))
        for passes in self.models:
            passes.collected.add_(count)
        self.drafted.copy_(ahead.length - state.length)
        ahead.finished.logical_or_(self.drafted >= self.enough)
        self._told.copy_(
            torch.stack((ahead.finished.all().long(), self.drafted.max().clamp(min=self.enough)))
        )
        index = state.length[:, None] + torch.arange(self.gamma, device=state.length.device)
        self.tokens.copy_(ahead.tokens.gather(1, index))


class TwoLevelDecoder(Decoder):
    """As `Decoder`, with as many draft tokens as the inner level collected, in each sequence its own number.

    widths: how many an iteration can verify.
    """

    def __init__(self, target: Runner, draft: TwoLevelDrafter, *rules: Any) -> None:
        """rules: as of `Decoder`."""
        super().__init__(target, draft, *rules)
        self.levels, self.widths = draft, tuple(range(draft.enough, draft.gamma + 1))

    def step_at(self, width: int, state: State) -> None:
        """As `step`, verifying `width` tokens: what was drafted beyond them is dropped."""
        self.levels.propose(state)
        self.levels.drafted.clamp_(max=width)
        self.conclude(state, *self.levels.proposed(width))

    def replayed(self, state: State, record: Record) -> Callable[[State], object]:
        """`step` on `state` as replayed graphs. Between inner rounds the host reads the device and chooses
        the last round.
        """
        levels, eager = self.levels, WeakMethod(self.step)
        levels.replay_of(state, record)
        ends = {n: record(partial(self.conclude, state, *levels.proposed(n))) for n in self.widths}

        def step(given: State) -> object:
            if given is not state:
                return eager()(given)  # type: ignore[misc]
            levels.propose(state)
            return ends[levels.longest]()

        return step

    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """As `Decoder.start`. Refuses prompts of one token."""
        if any(len(prompt) < 2 for prompt in prompts):
            raise InputError("--middle-kv: prompts must be of 2 tokens or more, given 1")
        return super().start(prompts, new_tokens, seed)

    @property
    def drafted(self) -> Tensor:
        """Tokens of each sequence that are meant, [batch]."""
        return self.levels.drafted

    def accept(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedTokens:
        """As `Decoder.accept`; a script knows no sequence's own number."""
        accepted = super().accept(state, draft_tokens, draft_probs, logits)
        return AcceptedTokens(torch.minimum(accepted.count, self.drafted), accepted.next_token)


@dataclass(frozen=True)
class LevelCounts:
    """Of both levels, over all unfinished sequences.

    inner: rounds in which 0, 1, ... gamma_1 small-model tokens were accepted. iterations: verifications by
    the full target; accepted: tokens that it accepted in them; complete: iterations in which it accepted all
    there were.
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
        """Tokens that a verification by the full target lets stand, its own included."""
        return 1 + self.accepted / max(1, self.iterations)

    @property
    def alphas(self) -> tuple[float, float]:
        """Rate at which a token is accepted if its forerunners were: of the small model, and of the sparse
        target.
        """
        gained = sum(j * count for j, count in enumerate(self.inner))
        tried = gained + sum(self.inner[:-1]), self.accepted + self.iterations - self.complete
        return gained / max(1, tried[0]), self.accepted / max(1, tried[1])


class LevelCounter:
    """Counts what both levels accept."""

    def __init__(self, levels: TwoLevelDrafter) -> None:
        self.levels = levels
        self._inner = torch.zeros_like(levels.histogram)
        self._outer = torch.zeros(3, dtype=torch.int64, device=levels.drafted.device)

    def __call__(self, state: State, accepted: AcceptedTokens) -> None:
        """The inner rounds of this iteration, and its verification."""
        on = ~state.finished
        complete = on & (accepted.count == self.levels.drafted)
        self._outer += torch.stack((on.sum(), (accepted.count * on).sum(), complete.sum()))
        self._inner += self.levels.histogram

    @property
    def counts(self) -> LevelCounts:
        """So far; waits for the device."""
        return LevelCounts(tuple(self._inner.sum(0).tolist()), *self._outer.tolist())
