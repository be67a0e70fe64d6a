"""The prefix cache of a replay, block by block: what is found, what running requests hold, and what is
evicted.

A *node* is a run of blocks that begins where its prompt's node before it ends: a prefix of all, a session's
context, or one hash of a trace. Blocks that no request runs on stay until room is needed, and the least
recently used go first; a request lets go of its last blocks first, as vLLM does.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from perfmodel.queueing.prefix import HitLaw

Path: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """What requests have in common, over ``[request]``.

    paths: (node, tokens) of the prompt, from its first token on, as far as others may have them. keeps: node
    that the rest of its context belongs to (-1: none). follows: request whose answer comes before it is sent
    (-1: none), and think_s: so many seconds before.
    """

    paths: Sequence[Path]
    keeps: Sequence[int]
    follows: Sequence[int] = ()
    think_s: Sequence[float] = ()

    def first(self, count: int) -> "Shared":
        """Of so many requests."""
        return Shared(*(getattr(self, each.name)[:count] for each in fields(self)))


@dataclass(slots=True)
class BlockCache:
    """Tokens by node: size of all that are cached, users: running requests that hold one, idle: held by none,
    least recently used first. own: of running requests, in blocks that nobody shares, and in those that are
    computed although they are cached. read, found: prompt tokens that were computed, and that were not.
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

    def find(self, request: int, prompt: int) -> tuple[int, int]:
        """Tokens of a prompt that need not be computed, and those for which it would take room."""
        matched, missed, needed = 0, False, prompt
        for node, tokens in self.shared.paths[request]:
            held = min(self.size.get(node, 0), tokens)
            if node in self.users:
                needed -= held
            if not missed:
                matched += held
                missed = held < tokens
        hit = int(self.law.hits(matched, prompt)) if matched else 0
        return hit, needed + matched - hit

    def enter(self, request: int, prompt: int, hit: int, needed: int) -> None:
        """Take the room that `find` said."""
        fresh, double = 0, needed - prompt
        for node, tokens in self.shared.paths[request]:
            held = min(self.size.get(node, 0), tokens) if node in self.users else 0
            if not held:
                self.idle_tokens -= self.idle.pop(node, 0)
                self.size[node] = 0
            self.users[node] = self.users.get(node, 0) + 1
            self.size[node] = max(self.size[node], tokens)
            fresh += tokens - held
            double += held
        self.own[request] = needed - fresh - double, double
        self.read += prompt - hit
        self.found += hit

    def leave(self, request: int, decoded: float, keep: bool = True) -> float:
        """Tokens of room that are given back. decoded: the request's since it came. keep: whether its
        session goes on.
        """
        own, double = self.own.pop(request)
        rest, kept, left = int(own + decoded), self.shared.keeps[request] if keep else -1, list[int]()
        freed = own + decoded + double
        for node, _ in reversed(self.shared.paths[request]):
            self.users[node] -= 1
            if not self.users[node]:
                del self.users[node]
                left.append(node)
                freed += self.size[node]
        last = -1 - request if kept < 0 else kept
        self.idle_tokens -= self.idle.pop(last, 0)  # of a request that was preempted before
        self.size[last] = self.size.get(last, 0) + rest
        for node in (last, *(node for node in left if node != kept)):
            self.idle[node] = self.size[node]
            self.idle_tokens += self.size[node]
        return freed

    def trim(self, room: float) -> None:
        """Evict whole blocks until what is idle fits."""
        while self.idle_tokens > max(room, 0.0):
            node, tokens = next(iter(self.idle.items()))
            blocks = -int((room - self.idle_tokens) // self.law.block) * self.law.block
            gone = min(tokens, blocks)
            self.idle_tokens -= gone
            if gone == tokens:
                del self.idle[node]
                self.size.pop(node, None)
            else:
                self.idle[node] = self.size[node] = tokens - gone
