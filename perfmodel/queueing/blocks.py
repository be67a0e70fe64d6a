"""The prefix cache of a replay, block by block: hits, blocks of running requests, and evictions.

A *node* is a sequence of blocks that begins where the previous node of its prompt ends. A node is a common
prefix, a session's context, or the block of one hash in a trace. Blocks that no running request uses stay in
the cache until their memory is needed. The least recently used blocks are evicted first. A request releases
its last blocks first, as in vLLM.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeAlias

from perfmodel.queueing.prefix import HitLaw

Path: TypeAlias = tuple[tuple[int, int], ...]
"""The nodes of a prompt, each with the number of its tokens, in the order of the prompt."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of prompts that requests share. Every field is an array over ``[request]``.

    - paths: the (node, tokens) pairs of each prompt, in the order of its tokens. The last part of a prompt is
      left out, because no other request can share it.
    - keeps: the node that stores the rest of the request's context for its session. It is None for a request
      without a session.
    - follows: index of the previous request in the same session. It is None for the first request of a
      session.
    - think_s: seconds between the answer to the previous request and this request.
    """

    paths: Sequence[Path]
    keeps: Sequence[int | None]
    follows: Sequence[int | None] = ()
    think_s: Sequence[float] = ()

    def first(self, count: int) -> "Shared":
        """The shared parts of the first `count` requests."""
        return Shared(*(getattr(self, each.name)[:count] for each in fields(self)))


class FoundPrompt(NamedTuple):
    """The result of looking up a prompt in a cache.

    - hit_tokens: prompt tokens that need not be computed, because they are cached.
    - needed_tokens: size of the cache memory that the prompt takes, in tokens.
    """

    hit_tokens: int
    needed_tokens: int


@dataclass(slots=True)
class BlockCache:
    """The contents of a prefix cache, node by node.

    - size: cached tokens of each node.
    - users: number of running requests that use each node.
    - idle: cached tokens of the nodes that no running request uses, least recently used first.
    - own: two token counts for each running request: its tokens in private blocks, and its tokens that are
      cached but are computed again.
    - read: number of prompt tokens that were computed.
    - found: number of prompt tokens that were in the cache.
    """

    law: HitLaw
    shared: Shared
    size: dict[int, int] = field(default_factory=dict)
    users: dict[int, int] = field(default_factory=dict)
    idle: OrderedDict[int, int] = field(default_factory=OrderedDict)
    idle_tokens: float = 0.0
    own: dict[int, tuple[int, int]] = field(default_factory=dict)
    read: int = 0
    found: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of prompt tokens that were not computed."""
        return self.found / max(self.found + self.read, 1)

    def find(self, request: int, prompt: int) -> FoundPrompt:
        """Looks up how much of a prompt is in the cache, and how much memory the prompt would take. Cached
        blocks that are idle count as part of this memory.
        """
        matched = 0
        missed = False
        needed = prompt
        for node, tokens in self.shared.paths[request]:
            size = self.size.get(node, 0)
            blocks = min(size, tokens)
            needed -= blocks if node in self.users else blocks - size  # an idle node takes its whole size
            if not missed:
                matched += blocks
                missed = blocks < tokens
        hit = self.law.hits_of_one(matched, prompt)
        return FoundPrompt(hit, needed + matched - hit)

    def enter(self, request: int, prompt: int, hit: int, needed: int, again: bool = False) -> None:
        """Allocates the cache memory that `find` returned for a request.

        - again: whether the request was preempted before. The tokens of such a request count neither as
          computed nor as found.
        """
        fresh = 0
        double = needed - prompt
        for node, tokens in self.shared.paths[request]:
            before = self.size.get(node, 0) if node in self.users else 0
            self.idle_tokens -= self.idle.pop(node, 0)
            self.users[node] = self.users.get(node, 0) + 1
            self.size[node] = max(self.size.get(node, 0), tokens)
            grown = self.size[node] - before
            fresh += grown
            double += tokens - grown
        self.own[request] = needed - fresh - double, double
        if not again:
            self.read += prompt - hit
            self.found += hit

    def leave(self, request: int, decoded: float, keep: bool = True) -> float:
        """Removes a finished or preempted request, and returns the memory that it frees, in tokens.

        - decoded: tokens that the request decoded since its arrival.
        - keep: whether the context of the request stays cached for its session.
        """
        own, double = self.own.pop(request)
        rest = int(own + decoded)
        kept = self.shared.keeps[request] if keep else None
        left = list[int]()
        freed = own + decoded + double
        for node, _ in reversed(self.shared.paths[request]):
            self.users[node] -= 1
            if not self.users[node]:
                del self.users[node]
                left.append(node)
                freed += self.size[node]
        last = _node_of(request) if kept is None else kept
        self.idle_tokens -= self.idle.pop(last, 0)  # the node may come from before a preemption
        self.size[last] = self.size.get(last, 0) + rest
        for node in (last, *(node for node in left if node != kept)):
            self.idle[node] = self.size[node]
            self.idle_tokens += self.size[node]
        return freed

    def trim(self, room: float) -> None:
        """Evicts whole idle blocks until the idle tokens fit in `room` tokens."""
        while self.idle and self.idle_tokens > room:
            node, tokens = next(iter(self.idle.items()))
            blocks = -int((room - self.idle_tokens) // self.law.block) * self.law.block
            gone = min(tokens, blocks)
            self.idle_tokens -= gone
            if gone == tokens:
                del self.idle[node]
                self.size.pop(node, None)
            else:
                self.idle[node] = self.size[node] = tokens - gone


def _node_of(request: int) -> int:
    """The node of the context that only this request uses. Shared nodes have numbers from 0."""
    return -1 - request
