"""The committed tokens that a draft reads: its view of a `KVCache`, the counterpart of a method in
`perfmodel.kv`.

Every view has the same contract. `build` runs once the prompts are in the cache, `attend` serves one layer of
a draft step, `commit` follows a verification. To add a view, add a file with the name of its method.
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
    """Whether its keys and values come from passes over the view itself, including those over the prompt."""
    by_query: ClassVar[bool] = False
    """Whether `attend` selects by the queries that it is given, for all of them together."""
    changing: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that iterations change, without contents (copied keys and values, and what is
    computed from them).
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
        """Sets up from the prompts, which are committed in the source."""

    @abstractmethod
    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        """As `FoldedAttention`, over the committed tokens that this view selects and over the new ones."""

    def begin(self) -> None:
        """Called before the draft steps of an iteration: one span serves all its layers and steps."""
        self._span = self.source.span()

    def commit(self, start: Tensor, count: Tensor) -> None:
        """The source committed `count` [batch] tokens, 0 to max_accepted + 1, from positions `start` [batch]
        on.
        """

    def refresh(self) -> None:
        """Periodic work that the host decides on, after `commit` and outside any captured graph."""

    def tighten(self) -> None:
        """Brings host-side bounds down to the lengths. Only here may a view wait for the device."""


class Packed(View):
    """A view with its own cache of `slots` tokens, and one more slot for tokens to discard.

    Subclasses choose the copied tokens at `build` and the places of later tokens. The order of tokens has no
    meaning, because keys carry their positions.
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
        """States that no row is longer than `bound` tokens (all slots if the source's bound is fixed, for
        captured graphs).
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
        """Copies the source's tokens start, start + 1, ... into slots [batch, n]; those beyond `count` are
        discarded.
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
    """The committed keys of one layer in pages [batch, kv_heads, pages, page, head_dim], and a mask of valid
    ones.

    The mask is [batch, 1, pages, page, 1], because the last page may not be full.
    """
    keys = keys[:, :, : source.bound].to(dtype)
    pages = F.pad(keys, (0, 0, 0, -source.bound % page)).unflatten(2, (-1, page))
    position = torch.arange(pages.shape[2] * page, device=keys.device).view(-1, page)
    return pages, (position < source.lengths[:, None, None])[:, None, :, :, None]


def check_option(method: KVMethod, option: str, value: object, good: bool) -> None:
    """Refuse (InputError) an option that the model can predict and the decoder cannot run."""
    if not good:
        raise InputError(
            f"--draft-kv: {method.name}: {option}={value} can be predicted but not run by the decoder"
        )
