"""Drafts that run a model: the target through a sparse view of its cache, or a smaller one with a cache of its own."""

from typing import Protocol

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.kv.streamingllm import RollingView
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.runner import Observed, Runner, Spans
from perfmodel.validate.decoder.sampling import Sampling, draw
from perfmodel.validate.decoder.state import State


class Draft(Protocol):
    """Proposes tokens. All of it stays on the device."""

    gamma: int

    @property
    def models(self) -> tuple["ViewRunner", ...]:
        """What it runs; the decoder keeps their caches and views up to date."""
        ...

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """draft_tokens [batch, gamma], and the draft_probs they were drawn from [batch, gamma, vocab], if any."""
        ...


class ViewRunner:
    """Runs a model on tokens that are not committed, and reads those that are through `view`.

    Their keys and values are kept in a scratch of `slots` tokens, from slot 0 on, the same slots for all sequences; or,
    where `collects`, behind the `collected` [batch] tokens that each sequence has there already.
    own: the runner has a cache of its own (a separate model, or own_prefill), which is written too; else verification
    fills it.
    behind: tokens that an own cache lacks of the target's: where all drafts were accepted, the last of them was never
    fed. Two where it collects: all of that may be accepted, and one token more. The first pass of an iteration always
    takes as many more, so that shapes stay the same.
    """

    def __init__(self, runner: Runner, view: View, slots: int, own: bool, collects: bool = False) -> None:
        self.runner, self.view, self.own = runner, view, own
        self.behind = int(own) + int(own and collects)
        layers, batch, heads, _, d = runner.cache.k.shape
        shape = (2, layers, batch, heads, slots, d)
        self._k, self._v = torch.zeros(shape, dtype=runner.model.dtype, device=runner.model.device)
        self.collects, self.collected = collects, torch.zeros_like(runner.cache.lengths)

    def run(self, tokens: Tensor, used: int = 0, ahead: Tensor | None = None, sees: Tensor | None = None) -> Tensor:
        """Hidden states [batch, n, hidden] of tokens [batch, n], which take the scratch slots from `used` on.

        ahead, sees: see `Runner.extend`; sees is [1, n, used + n].
        """
        cache, n = self.runner.cache, tokens.shape[1]
        start = cache.lengths + used + self.collected if self.collects else cache.lengths + used
        slots = cache.positions(start, n)
        positions = slots if ahead is None else cache.lengths[:, None] + ahead
        spans, end = Spans(cache, positions), used + n
        scratch, written = slots - cache.lengths[:, None], cache.slot(slots)
        if self.collects:
            end = self._k.shape[3]
            sees = torch.arange(end, device=slots.device) <= scratch[:, :, None]

        def attend(index: int, projected: Projected) -> Tensor:
            k, v, own = self._k[index], self._v[index], cache.at(index, written) if self.own else None
            if self.collects:
                q, *new = projected.rotate(None, own)
                Slots(k, v, cache.rows, scratch).write(*new)
            else:
                q, _, _ = projected.rotate((k[:, :, used:end], v[:, :, used:end]), own)
            k, v, window = k[:, :, :end], v[:, :, :end], projected.layer.window
            if window is None:
                return self.view.attend(index, q, k, v, sees)
            span = spans.of(min(window, self.view.budget or window))
            return self.runner.attention(q, cache.k[index], cache.v[index], span, k, v, sees)

        return self.runner.model(tokens, positions, attend)

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed | None) -> None:
        """Prepare for prompts tokens [batch, longest] of `lengths` [batch], which the target has just run.

        An own cache is filled by running the prompts, but for the last tokens.
        """
        fed, most = lengths - self.behind, tokens.shape[1] - self.behind
        if isinstance(self.view, RollingView):
            return windowed_prefill(self.runner, self.view, tokens[:, :most], fed)
        if self.own:
            _, observed = self.runner.prefill(tokens, fed, self.view.window)
            self.runner.cache.set_lengths(fed, most)
        self.view.build(observed)

    def commit(self, count: Tensor) -> None:
        """The target committed `count` [batch] tokens (its cache has advanced already)."""
        cache = self.runner.cache
        if self.own:
            cache.advance(count, self.view.max_accepted + 1)
        self.view.commit(cache.lengths - count, count)


class ModelDraft:
    """gamma passes of a model, reading committed tokens through a view."""

    def __init__(self, passes: ViewRunner, gamma: int, sampling: Sampling) -> None:
        self.passes, self.gamma, self.sampling, self.models = passes, gamma, sampling, (passes,)
        self.runner, self.view, self.own = passes.runner, passes.view, passes.own

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """gamma draft steps."""
        self.view.begin()
        tokens, used = state.newest(1 + self.passes.behind), 0
        draft_tokens, draft_probs = [], []
        for _ in range(self.gamma):
            logits = self.runner.model.logits(self.passes.run(tokens, used)[:, -1])
            used += tokens.shape[1]
            if self.sampling.greedy:
                token = logits.argmax(-1)
            else:
                draft_probs.append(self.sampling.probabilities(logits))
                token = draw(draft_probs[-1], state.generator)
            draft_tokens.append(token)
            tokens = token[:, None]
        return torch.stack(draft_tokens, 1), torch.stack(draft_probs, 1) if draft_probs else None


def windowed_prefill(runner: Runner, view: RollingView, tokens: Tensor, lengths: Tensor) -> None:
    """Run prompts tokens [batch, longest] of `lengths` [batch] through the view itself.

    A chunk sees what the view keeps of the tokens before it, and itself: O(longest x budget), and memory for one chunk.
    """
    cache, passes = runner.cache, ViewRunner(runner, view, view.chunk, own=True)
    cache.set_lengths(torch.zeros_like(lengths), 0)
    view.build(None)
    for start in range(0, tokens.shape[1], view.chunk):
        part = tokens[:, start : start + view.chunk]
        count = (lengths - start).clamp(0, part.shape[1])
        view.begin()
        passes.run(part)
        cache.advance(count, part.shape[1])
        view.take(cache.lengths - count, count, part.shape[1])
