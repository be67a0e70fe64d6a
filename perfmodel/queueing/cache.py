"""The KV cache of a replayed server, with or without a prefix cache."""

from abc import ABC, abstractmethod
from typing import ClassVar

from perfmodel.queueing.blocks import BlockCache, FoundPrompt, Shared
from perfmodel.queueing.prefix import HitLaw
from perfmodel.queueing.request import QueuedRequest


class Cache(ABC):
    """The size and the use of a KV cache, in tokens. Idle blocks of a prefix cache do not count as used.
    shared: whether requests share cached blocks.
    """

    shared: ClassVar[bool] = False

    def __init__(self, room_tokens: float) -> None:
        self.room_tokens = room_tokens
        self.used_tokens = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that were in the prefix cache; None without a prefix cache."""
        return None

    @abstractmethod
    def find(self, request: QueuedRequest) -> FoundPrompt:
        """The part of the prompt that is in the cache, and the memory that the prompt takes."""

    @abstractmethod
    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        """Takes the memory that `find` returned."""

    @abstractmethod
    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        """Frees the memory of a request that decoded this many tokens. keep: whether its session keeps its
        context.
        """

    @abstractmethod
    def trim(self) -> None:
        """Evicts idle blocks until all blocks fit."""


class PrivateCache(Cache):
    """Each request has its own cache, and nothing is kept after its end."""

    def find(self, request: QueuedRequest) -> FoundPrompt:
        return FoundPrompt(0, request.prompt_tokens)

    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        self.used_tokens += needed_tokens

    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        self.used_tokens -= request.prompt_tokens + decoded

    def trim(self) -> None:
        return


class PrefixCache(Cache):
    """Requests share the blocks of common prefixes, which stay cached until their memory is needed."""

    shared = True

    def __init__(self, room_tokens: float, law: HitLaw, shared: Shared) -> None:
        super().__init__(room_tokens)
        self.blocks = BlockCache(law, shared)

    @property
    def hit_rate(self) -> float | None:
        return self.blocks.hit_rate

    def find(self, request: QueuedRequest) -> FoundPrompt:
        return self.blocks.find(request.number, request.prompt_tokens)

    def enter(self, request: QueuedRequest, needed_tokens: int) -> None:
        self.used_tokens += needed_tokens
        prompt = request.prompt_tokens
        self.blocks.enter(request.number, prompt, request.hit_tokens, needed_tokens, again=request.preempted)
        self.trim()

    def leave(self, request: QueuedRequest, decoded: float, keep: bool = True) -> None:
        self.used_tokens -= self.blocks.leave(request.number, decoded, keep)

    def trim(self) -> None:
        self.blocks.trim(self.room_tokens - self.used_tokens)
