"""The KV cache of a replayed server, with or without a prefix cache."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from perfmodel.queueing.blocks import BlockCache, FoundPrompt, Shared
from perfmodel.queueing.prefix import HitLaw
from perfmodel.queueing.request import QueuedRequest


class Cache(ABC):
    """A KV cache, with its size and its used memory in tokens. Idle blocks of a prefix cache do not count as
    used.

    - shared: whether requests share cached blocks.
    """

    shared: ClassVar[bool] = False

    def __init__(self, room_tokens: float) -> None:
        self.room_tokens = room_tokens
        self.used_tokens = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that were in the prefix cache. The result is None without a prefix cache."""
        return None

    @abstractmethod
    def find(self, request: QueuedRequest) -> FoundPrompt:
        """Looks up how much of the prompt is in the cache, and how much memory the prompt takes."""

    @abstractmethod
    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        """Allocates the memory that `find` returned for a request."""

    @abstractmethod
    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        """Frees the memory of a request that decoded this many tokens.

        - keep: whether the context of the request stays cached for its session.
        """

    @abstractmethod
    def trim(self) -> None:
        """Limits the idle blocks to the memory that running requests leave now."""


class PrivateCache(Cache):
    """A cache without prefix caching: requests share nothing, and the memory of a request is freed at its
    end.
    """

    def find(self, request: QueuedRequest) -> FoundPrompt:
        return FoundPrompt(0, request.prompt_tokens)

    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        self.used_tokens += needed_tokens

    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        self.used_tokens -= request.prompt_tokens + decoded

    def trim(self) -> None:
        return


class PrefixCache(Cache):
    """A cache in which requests share the blocks of common prefixes. These blocks stay cached until their
    memory is needed. They are evicted when a request next looks them up, enters or leaves, because nothing
    else reads them.

    - idle_room_tokens: least memory for idle blocks since the last eviction, in tokens.
    """

    shared = True

    def __init__(self, room_tokens: float, law: HitLaw, shared: Shared) -> None:
        super().__init__(room_tokens)
        self.blocks = BlockCache(law, shared)
        self.idle_room_tokens = math.inf

    @property
    def hit_rate(self) -> float | None:
        return self.blocks.hit_rate

    def find(self, request: QueuedRequest) -> FoundPrompt:
        self._evict()
        return self.blocks.find(request.number, request.prompt_tokens)

    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        self._evict()
        self.used_tokens += needed_tokens
        prompt = request.prompt_tokens
        self.blocks.enter(request.number, prompt, request.hit_tokens, needed_tokens, again=request.preempted)
        self.trim()

    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        self._evict()
        self.used_tokens -= self.blocks.leave(request.number, decoded, keep)

    def trim(self) -> None:
        room_tokens = self.room_tokens - self.used_tokens
        if room_tokens < self.idle_room_tokens:
            self.idle_room_tokens = room_tokens

    def _evict(self) -> None:
        """Evicts idle blocks until they fit in `idle_room_tokens`."""
        self.blocks.trim(self.idle_room_tokens)
        self.idle_room_tokens = math.inf
