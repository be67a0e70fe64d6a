"""A model that runs ahead of its committed tokens, each sequence as far as it got, with nothing committed on the way.

Committed tokens are read through a view. What was collected since has its keys and values in a small cache, where the
sequences have lengths of their own, so that each query is told which slots it sees.
"""

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import ModelDraft
from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import Sampling


class Ahead(Runner):
    """`cache` holds what was collected, at most `room` tokens, and `view` reads what is committed."""

    def __init__(self, model: Model, view: View, room: int) -> None:
        layers, batch, heads, _, d = view.source.k.shape
        super().__init__(
            model, KVCache(layers, batch, heads, room, d, model.device, view.source.k.dtype), view.attention
        )
        self.view = view

    def restart(self) -> None:
        """Nothing is collected any more; to be called once the view has taken what was committed."""
        self.cache.set_lengths(torch.zeros_like(self.cache.lengths), 0)
        self.view.begin()

    def bound_by(self, most: int) -> None:
        """No sequence has collected more than `most` tokens, as the host knows."""
        self.cache.set_lengths(self.cache.lengths, most)

    def follow(self, tokens: Tensor, used: int = 0) -> Tensor:
        """Hidden states [batch, n, hidden] of tokens [batch, n], a chain `used` slots behind what was collected.

        Their keys and values are kept there; `cache.advance` says how many are collected.
        """
        slots = self.cache.positions(self.cache.lengths + used, tokens.shape[1])
        end = self.cache.bound + used + tokens.shape[1]
        sees = torch.arange(end, device=slots.device) <= slots[:, :, None]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.cache.write(layer, k, v, slots)
            return self.view.attend(layer, q, self.cache.k[layer][:, :, :end], self.cache.v[layer][:, :, :end], sees)

        return self.model(tokens, self.view.source.lengths[:, None] + slots, attend)


class AheadDraft(ModelDraft):
    """A separate model drafting ahead of its own cache: `commit` collects, `settle` commits for good.

    Its cache runs two tokens behind the target's, and each first pass takes three: all that was collected may be
    accepted and one token more, while the last that was drafted was never fed.
    """

    def __init__(self, runner: Runner, view: View, gamma: int, sampling: Sampling, most: int) -> None:
        """most: tokens that may be accepted before they are settled, the last one's successor not counted."""
        super().__init__(runner, view, gamma, sampling, own=True, slots=1)
        self.takes, self.most = 3, most
        self.ahead = Ahead(runner.model, view, most + gamma + self.takes)

    def run(self, tokens: Tensor, used: int, ahead: Tensor | None = None, sees: Tensor | None = None) -> Tensor:
        """Hidden states of a chain behind what was collected."""
        return self.ahead.follow(tokens, used)

    def commit(self, count: Tensor) -> None:
        """`count` [batch] more tokens are collected."""
        self.ahead.cache.advance(count, self.gamma + 1)

    def settle(self, count: Tensor) -> None:
        """The first `count` [batch] of what was collected stand: they go to the own cache, and to the view."""
        own, start = self.runner.cache, self.runner.cache.lengths.clone()
        slots = own.positions(torch.zeros_like(start), self.most + 1)
        own.put(own.positions(start, self.most + 1), *self.ahead.cache.read(slots))
        own.advance(count, self.most + 1)
        self.view.commit(start, count)
