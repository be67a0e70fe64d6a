"""The prefix cache of a replay, block by block: hits, blocks of running requests, and evictions.

A *node* is a sequence of blocks that begins where the previous node of its prompt ends: a common prefix, a
session's context, or one hash of a trace. Blocks without a running request stay until their room is needed;
the least recently used are evicted first. A request releases its last blocks first, as in vLLM.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeAlias

from perfmodel.queueing.prefix import HitLaw

Path: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of prompts that requests share; every field is an array over ``[request]``.

    paths: (node, tokens) of the prompt from its first token, without the end that no other request can have.
    keeps: node of the rest of the request's context, which its session reuses; None without a session.
    follows: request of the same session whose answer precedes this one; None for the first. think_s: seconds
    between that answer and this request.
    """

    paths: Sequence[Path]
    keeps: Sequence[int | None]
    follows: Sequence[int | None] = ()
    think_s: Sequence[float] = ()

    def first(self, count: int) -> "Shared":
        """The shared parts of the first `count` requests."""
        return Shared(*(getattr(self, each.name)[:count] for each in fields(self)))


class FoundPrompt(NamedTuple):
    """Number of tokens of a prompt that need not be computed, and the room that the prompt takes, in
    tokens.
    """

    hit_tokens: int
    needed_tokens: int


@dataclass(slots=True)
class BlockCache:
    """The cached tokens of each node. size: number of all cached tokens. users: running requests that hold
    the node. idle: nodes without such requests, least recently used first. own: tokens of running requests
    in private blocks, and in cached blocks that are computed again. read: prompt tokens that were
    computed. found: prompt tokens that were found.
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
        """The part of a prompt that is in the cache, and the room that the prompt would take, idle tokens
        included.
        """
        matched = 0
        missed = False
        needed = prompt
        for node, tokens in self.shared.paths[request]:
            size = self.size.get(node, 0)
            blocks = min(size, tokens)
            needed -= blocks if node in self.users else blocks - size  # a longer idle node is held whole
            if not missed:
                matched += blocks
                missed = blocks < tokens
        hit = int(self.law.hits(matched, prompt)) if matched else 0
        return FoundPrompt(hit, needed + matched - hit)

    def enter(self, request: int, prompt: int, hit: int, needed: int, again: bool = False) -> None:
        """Takes the room that `find` returned. again: whether the request was preempted; its tokens then
        do not count as a hit.
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
        """Returns the tokens of room that a finished request gives back.

        decoded: tokens that it decoded since its arrival. keep: whether its session goes on.
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
        self.idle_tokens -= self.idle.pop(last, 0)  # of a request that was preempted before
        self.size[last] = self.size.get(last, 0) + rest
        for node in (last, *(node for node in left if node != kept)):
            self.idle[node] = self.size[node]
            self.idle_tokens += self.size[node]
        return freed

    def trim(self, room: float) -> None:
        """Evicts whole blocks until the idle ones fit."""
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
    """The node of context that only this request has; nodes that requests share are numbered from 0."""
    return -1 - request
