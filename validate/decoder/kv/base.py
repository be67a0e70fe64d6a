"""The base classes of views. A view selects the committed tokens of a `KVCache` that a draft reads. It runs a
KV method of `perfmodel.kv`.

The decoder calls `build` once the prompts are in the cache, `attend` for each layer of a draft step, and
`commit` after a verification. To add a view, add a file with the name of its method.
"""
# ruff: noqa: B027 - views override only the methods that they need

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
    """The base class of all views. `source` is the cache of the runner, which has the keys and values."""

    window: int = 0
    """The number of last prompt tokens whose queries `build` needs."""
    own_prefill: ClassVar[bool] = False
    """Whether all keys and values, including those of the prompt, come from passes that read only this
    view.
    """
    by_query: ClassVar[bool] = False
    """Whether `attend` selects tokens with its queries. All queries of a pass share one selection."""
    changing: ClassVar[tuple[str, ...]] = ()
    """The names of the attributes that iterations change. Copied keys and values, and tensors that are
    computed from them, are not listed.
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
        """Attention over the new tokens and the committed tokens that this view selects. The arguments are
        those of `FoldedAttention`.
        """

    def begin(self) -> None:
        """Called before the draft steps of an iteration. All layers and steps use the span that is set
        here.
        """
        self._span = self.source.span()

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Called after the source committed tokens.

        - start [batch]: the position of the first of these tokens.
        - count [batch]: the number of these tokens, from 0 to max_accepted + 1.
        """

    def refresh(self) -> None:
        """Called after each iteration, outside captured graphs, for periodic work that the host starts."""

    def tighten(self) -> None:
        """Lowers the bounds on the host to the actual lengths. Only this method may wait for the device."""


class Packed(View):
    """A view with its own cache of `slots` tokens. One more slot receives discarded tokens.

    Subclasses choose the tokens that `build` copies, and the slots of later tokens. The order of the tokens
    has no effect, because the keys are already rotated.
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
        """Sets the upper bound of the lengths to `bound` tokens, or to the number of slots if that is
        smaller. For captured graphs, the bound is always the number of slots.
        """
        self.bound = self.slots if self.source.fixed else min(bound, self.slots)

    def copy(self, layer: int, index: Tensor) -> None:
        """Copies tokens of the source into the first slots of a layer.

        - index: the slots of the tokens in the source, [batch, kv_heads, at most slots].
        """
        count = index.shape[2]
        self.k[layer][:, :, :count] = pick_tokens(self.source.k[layer], index)
        self.v[layer][:, :, :count] = pick_tokens(self.source.v[layer], index)

    def place(self, start: Tensor, count: Tensor, slot: Tensor) -> None:
        """Copies the source's tokens at positions start, start + 1, ... into slots [batch, n]. Only the first
        `count` [batch] tokens are copied.
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
    """The committed keys of one layer in pages [batch, kv_heads, pages, page, head_dim], and the mask of
    valid tokens [batch, 1, pages, page, 1]. The last page of a sequence need not be full.

    - page: the number of tokens of a page.
    """
    keys = keys[:, :, : source.bound].to(dtype)
    pages = F.pad(keys, (0, 0, 0, -source.bound % page)).unflatten(2, (-1, page))
    position = torch.arange(pages.shape[2] * page, device=keys.device).view(-1, page)
    return pages, (position < source.lengths[:, None, None])[:, None, :, :, None]


def check_option(method: KVMethod, option: str, value: object, good: bool) -> None:
    """Raises InputError unless `good`: the option has a value that the decoder cannot run."""
    if not good:
        raise InputError(
            f"--draft-kv: {method.name}: {option}={value} can be predicted but not run by the decoder"
        )
