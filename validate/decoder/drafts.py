"""Drafts that run a model: the target through a sparse view of its cache, or a smaller one with a cache of its own."""

from typing import Protocol

import torch
from torch import Tensor

from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import Sampling, draw
from perfmodel.validate.decoder.state import State


class Draft(Protocol):
    """Proposes tokens. All of it stays on the device."""

    gamma: int
    window: int
    """Last prompt tokens whose queries, in the target's prefill, `prefill` wants to see."""

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed | None) -> None:
        """Prepare for prompts tokens [batch, longest] of `lengths` [batch], which the target has just run."""
        ...

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Drafted tokens [batch, gamma], and the distributions they were drawn from [batch, gamma, vocab], if any."""
        ...

    def commit(self, count: Tensor) -> None:
        """The target committed `count` [batch] tokens (its cache has advanced already)."""
        ...

    def refresh(self) -> None:
        """Periodic work that the host decides on."""
        ...

    def tighten(self) -> None:
        """Bring host-side bounds down; may wait for the device."""
        ...


class ModelDraft:
    """gamma passes of `runner.model`, reading committed tokens through `view`.

    own: the runner has a cache of its own (a separate model); else it is the target's, which verification fills.
    The new tokens' keys and values are kept in a scratch of gamma + 1 slots, the same slots for all sequences.

    `takes`: tokens that the first pass of an iteration takes.
    A separate model's cache runs one token behind the target's, and its first pass takes the last two tokens: where all
    drafts were accepted, the last of them was never fed to it. Always taking two keeps the shapes the same.
    """

    def __init__(
        self, runner: Runner, view: View, gamma: int, sampling: Sampling, own: bool, slots: int | None = None
    ) -> None:
        """slots: of the scratch, where it is not to be gamma + 1."""
        self.runner, self.view, self.gamma, self.sampling, self.own = runner, view, gamma, sampling, own
        self.window, self.takes = 0 if own else view.window, 2 if own else 1
        layers, batch, heads, _, d = runner.cache.k.shape
        shape = (layers, batch, heads, slots or gamma + 1, d)
        self._k, self._v = (torch.zeros(shape, dtype=runner.model.dtype, device=runner.model.device) for _ in "kv")

    def prefill(self, tokens: Tensor, lengths: Tensor, observed: Observed | None) -> None:
        """A separate model runs the prompts itself, up to the last token but one."""
        if self.own:
            behind = lengths - self.takes + 1
            _, observed = self.runner.prefill(tokens, behind, self.view.window)
            self.runner.cache.set_lengths(behind, tokens.shape[1] - self.takes + 1)
        self.view.build(observed)

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """gamma draft steps."""
        self.view.begin()
        tokens, used = state.newest(self.takes), 0
        drafted, proposed = [], []
        for _ in range(self.gamma):
            logits = self.runner.model.logits(self.run(tokens, used)[:, -1])
            used += tokens.shape[1]
            if self.sampling.greedy:
                choice = logits.argmax(-1)
            else:
                proposed.append(self.sampling.probabilities(logits))
                choice = draw(proposed[-1], state.generator)
            drafted.append(choice)
            tokens = choice[:, None]
        return torch.stack(drafted, 1), torch.stack(proposed, 1) if proposed else None

    def run(self, tokens: Tensor, used: int, ahead: Tensor | None = None, sees: Tensor | None = None) -> Tensor:
        """Hidden states [batch, n, hidden] of tokens [batch, n], which take the scratch slots from `used` on.

        ahead, sees: see `Runner.extend`; sees is [1, n, used + n].
        """
        cache, end = self.runner.cache, used + tokens.shape[1]
        slots = cache.positions(cache.lengths + used, tokens.shape[1])
        positions = slots if ahead is None else cache.lengths[:, None] + ahead

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._k[layer][:, :, used:end], self._v[layer][:, :, used:end] = k, v
            if self.own:
                cache.write(layer, k, v, slots)
            return self.view.attend(layer, q, self._k[layer][:, :, :end], self._v[layer][:, :, :end], sees)

        return self.runner.model(tokens, positions, attend)

    def commit(self, count: Tensor) -> None:
        """Advance the own cache, then let the view take what was committed."""
        cache = self.runner.cache
        if self.own:
            cache.advance(count, self.gamma + 1)
        self.view.commit(cache.lengths - count, count)

    def refresh(self) -> None:
        """Periodic rebuilds of the view."""
        self.view.refresh()

    def tighten(self) -> None:
        """Bounds of the view, and of the own cache."""
        if self.own:
            self.runner.cache.tighten()
        self.view.tighten()
