"""The base classes of views. A view selects the committed tokens of a `KVCache` that a draft reads, as a KV
method of `perfmodel.kv` describes.

Every view has the same contract. `build` is called once the prompts are in the cache, `attend` for each layer
of a draft step, and `commit` after a verification. To add a view, add a file with the name of its method.
"""
# ruff: noqa: B027 - what a view has nothing to do for, it leaves as it is

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.kv import KVMethod
from perfmodel.validate.decoder.attention import CacheSpan
from perfmodel.validate.decoder.backends import selection
from perfmodel.validate.decoder.cache import KVCache, pick_tokens
from perfmodel.validate.decoder.memory import allocate
from perfmodel.validate.decoder.runner import Observed, Runner


class View(ABC):
    """Base of all views. `source` is the runner's cache, from which the draft's keys and values come."""

    window: int = 0
    """Number of last prompt tokens whose queries `build` needs."""
    own_prefill: ClassVar[bool] = False
    """Whether all keys and values, also those of the prompt, come from passes that read only this view."""
    by_query: ClassVar[bool] = False
    """Whether `attend` selects tokens by its queries. One selection serves all queries."""
    changing: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that iterations change, except copied keys and values and tensors that are computed
    from them.
    """

    def __init__(self, method: KVMethod, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        self.source = runner.cache
        self.attention = runner.attention
        self.max_accepted = max_accepted
        self.selection = selection(runner.attention)
        self.pointwise = runner.model.pointwise
        self.dtype = runner.model.dtype
        self.budget: int | None = method.budget

    def build(self, observed: Observed) -> None:
        """Prepares the view after the prompts have been committed to the source."""

    @abstractmethod
    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        """The same as `FoldedAttention`, over the new tokens and the committed tokens that this view
        selects.
        """

    def begin(self) -> None:
        """Called before the draft steps of an iteration. All layers and steps use the span that it makes."""
        self._span = self.source.span()

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Called after the source committed tokens.

        - count [batch]: the number of committed tokens, 0 to max_accepted + 1.
        - start [batch]: the position of the first.
        """

    def refresh(self) -> None:
        """Periodic work that the host starts. It runs after `commit` and outside captured graphs."""

    def tighten(self) -> None:
        """Lowers the bounds on the host to the actual lengths. Only this method may wait for the device."""


class Packed(View):
    """A view with its own cache of `slots` tokens. One more slot receives tokens that are to be discarded.

    Subclasses choose which tokens `build` copies, and the slots of later tokens. The order of tokens has no
    effect, because the keys contain their positions.
    """

    bound: int
    changing: ClassVar[tuple[str, ...]] = ("lengths", "bound")

    def __init__(
        self, method: KVMethod, runner: Runner, new_tokens: int, max_accepted: int, slots: int
    ) -> None:
        super().__init__(method, runner, new_tokens, max_accepted)
        layers, batch, heads, _, d = self.source.k.shape
        device = self.source.k.device
        self.slots = slots
        shape = (2, layers, batch, heads, slots + 1, d)
        self.kv = allocate("draft KV cache", shape, device, self.source.k.dtype)
        self.k = self.kv[0]
        self.v = self.kv[1]
        self.lengths = torch.zeros(batch, dtype=torch.int64, device=device)

    def raise_bound(self, bound: int) -> None:
        """Sets the upper bound of the lengths to `bound` tokens. If the bound of the source is fixed for
        captured graphs, it is the number of slots.
        """
        self.bound = self.slots if self.source.fixed else min(bound, self.slots)

    def copy(self, layer: int, index: Tensor) -> None:
        """Copies the source's tokens at index [batch, kv_heads, at most slots] into the first slots of a
        layer.
        """
        count = index.shape[2]
        self.k[layer][:, :, :count] = pick_tokens(self.source.k[layer], index)
        self.v[layer][:, :, :count] = pick_tokens(self.source.v[layer], index)

    def place(self, start: Tensor, count: Tensor, slot: Tensor) -> None:
        """Copies the source's tokens start, start + 1, ... into slots [batch, n]. Tokens beyond the first
        `count` [batch] are discarded.
        """
        places = self.source.slot(self.source.positions(start, slot.shape[1]))
        keep = torch.arange(slot.shape[1], device=slot.device) < count[:, None]
        kept = torch.where(keep, slot, self.slots)
        self.pointwise.copy_tokens(self.source.kv.flatten(0, 1), places, self.kv.flatten(0, 1), kept)

    def begin(self) -> None:
        self._span = CacheSpan(self.lengths, self.bound)

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        return self.attention(q, self.k[layer], self.v[layer], self._span, new_k, new_v, sees)


def by_pages(keys: Tensor, source: KVCache, page: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The committed keys of one layer in pages [batch, kv_heads, pages, page, head_dim], and a mask of the
    valid tokens.

    The mask is [batch, 1, pages, page, 1], because the last page may not be full.
    """
    keys = keys[:, :, : source.bound].to(dtype)
    pages = F.pad(keys, (0, 0, 0, -source.bound % page)).unflatten(2, (-1, page))
    position = torch.arange(pages.shape[2] * page, device=keys.device).view(-1, page)
    return pages, (position < source.lengths[:, None, None])[:, None, :, :, None]


def check_option(method: KVMethod, option: str, value: object, good: bool) -> None:
    """Raises InputError unless `good`, for an option that can be predicted but not run by the decoder."""
    if not good:
        raise InputError(
            f"--draft-kv: {method.name}: {option}={value} can be predicted but not run by the decoder"
        )
