"""The number of prompt tokens that a prefix cache saves. A draft may reduce this number.

If the first m tokens of a prompt of L tokens are cached, an engine reuses whole blocks of U tokens. The
engine never reuses the last token of the prompt:

    hits = max(0, floor(min(m, L - 1) / U) - d) U

Here d is 1 if the draft starts from the target's hidden states, and 0 otherwise. A prefix cache does not keep
hidden states, so the last block is computed again (vllm#54360). Cached blocks use the memory that the running
batch leaves, and the least recently used block is evicted first. A common prefix stays cached if at least one
request uses it within the eviction time. A session's context stays cached if the next request of the session
comes within that time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.specs.calibrations.engine_words import DEFAULT_ENGINE, engine_of
from perfmodel.specs.engines.served_requests import PrefixBlocks
from perfmodel.specs.engines.stacks import serving_engines
from perfmodel.speculation.scenario import Scenario

NODES = 16
"""Number of prompt lengths that represent a uniform distribution. For sessions of several turns, it is the
number for all turns together.
"""
NEGLIGIBLE = 1e-9
"""Share of a pass that counts as rounding."""
AGES = 128
"""Number of ages of idle contexts between which the probability of a return is interpolated."""


@dataclass(frozen=True, slots=True)
class HitLaw:
    """The rule that gives the number of prompt tokens that a prefix cache saves.

    - block: tokens per block. It is the same for all cache groups.
    - dropped: number of matched blocks that are computed again.
    """

    block: int
    dropped: int = 0

    def hits(self, matched: Floats, prompt: Floats) -> Array:
        """Number of prompt tokens that need not be computed.

        - matched: number of cached tokens from the start of the prompt.
        """
        whole = np.minimum(matched, np.subtract(prompt, 1.0)) // self.block - self.dropped
        return np.maximum(whole, 0.0) * self.block

    def hits_of_one(self, matched: int, prompt: int) -> int:
        """`hits` of one prompt, without arrays."""
        whole = min(matched, prompt - 1) // self.block - self.dropped
        return max(whole, 0) * self.block


@dataclass(frozen=True, slots=True)
class PrefixSettings:
    """Settings of the prefix cache that replace the engine's own settings.

    - block: tokens per block. None means the engine's own.
    - keeps: whether the engine reuses the last matched block even with a draft.
    """

    block: int | None = None
    keeps: bool = False

    def law(self, scenario: Scenario, gamma: int) -> HitLaw:
        """The rule of the prefix cache of a server that drafts `gamma` tokens."""
        rules = prefix_blocks(scenario)
        block = self.block or (enlarged_block(scenario, gamma, rules) if rules.raised else rules.block)
        drops = rules.drops and scenario.draft.starts_from_features and not self.keeps
        return HitLaw(block, int(drops and gamma > 0))


def prefix_blocks(scenario: Scenario) -> PrefixBlocks:
    """The facts about prefix-cache blocks of the scenario's engine. If the calibration does not belong to a
    serving engine, the facts of the default engine are returned.
    """
    engines = serving_engines()
    engine = engine_of(scenario.machine.calibration) or DEFAULT_ENGINE
    return engines.get(engine, engines[DEFAULT_ENGINE]).prefix


def enlarged_block(scenario: Scenario, gamma: int, rules: PrefixBlocks) -> int:
    """Tokens per block of the prefix cache. With recurrent layers, the engine enlarges the block until a
    recurrent state fits in it (`Shard.block_with_state`). The result agrees with the block sizes of 2,144 and
    1,648 tokens that vllm#54360 reports.
    """
    shard = scenario.target_shard
    has_latent_state = shard.states is not None and scenario.target.mla is not None
    block = max(rules.block, rules.latent) if has_latent_state else rules.block
    return shard.block_with_state(block, gamma)


class PromptTokens(NamedTuple):
    """Mean and standard deviation of the number of prompt tokens."""

    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class CachedPrompts:
    """The effect of a prefix cache on the prompts of a server. `read`, `hit_rate` and `pairs` are over
    ``[running batch]`` from 1.

    - read: mean number of prompt tokens that are computed.
    - hit_rate: share of prompt tokens that are not computed.
    - pairs: mean over prompts of computed tokens times cached tokens.
    - room_tokens: number of tokens that the caches of all groups together can hold.
    - cv: coefficient of variation of the number of computed tokens, between prompts, on an idle server.
    - lengths, chance: the possible numbers of computed tokens of a prompt on an idle server, and the
      probabilities of these numbers. The first third is for prompts that find the context of their session,
      the second for prompts that only find the shared prefix, and the last for prompts that find nothing.
    """

    law: HitLaw
    read: Array
    hit_rate: Array
    pairs: Array
    cv: float
    room_tokens: float
    lengths: Array
    chance: Array

    @property
    def returning(self) -> float:
        """The share of the prompts that find the context of their session, on an idle server."""
        return float(self.chance[: self.chance.size // 3].sum())

    def found(self, share: Array) -> Array:
        """Mean of `hit_rate`, weighted by shares of time ``[load, running batch]``. The shares start at batch
        0, for which the hit rate of batch 1 is used.
        """
        return np.asarray(share @ self.at(self.hit_rate, np.arange(float(share.shape[-1]))))

    def passes(self, left: Array) -> Array:
        """Mean number of passes that read a prompt.

        - left: number of prompt tokens for which a pass has room.
        """
        return np.ceil(self.lengths / left[..., None] - NEGLIGIBLE) @ self.chance

    def at(self, values: Array, batch: Floats) -> Array:
        """The value of an array over batch sizes 1, 2, ..., interpolated between whole sizes."""
        return np.asarray(np.interp(batch, np.arange(1.0, values.size + 1), values))


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of prompts that requests have, over ``[kind]``.

    - prompt: number of tokens of the prompt.
    - matched: number of tokens at the start of the prompt that were computed before.
    - weight: share of all requests.
    - returns: whether the matched tokens come from the prompt's own session.
    """

    prompt: Array
    matched: Array
    weight: Array
    returns: NDArray[np.bool_]


@dataclass(frozen=True)
class Reuse:
    """Parameters of the parts of prompts that requests share.

    - first: lengths of the first request of a session.
    - prefix, share: number of tokens of a common prefix, and the share of sessions that begin with it.
    - turns: requests per session.
    - turn_tokens: tokens that each further prompt of a session adds to the previous context.
    - think_s: mean time in seconds between an answer and the next prompt of the session.
    - engine: settings of the engine's prefix cache.
    """

    first: Lengths
    prefix: float = 0.0
    share: float = 1.0
    turns: int = 1
    turn_tokens: float = 0.0
    think_s: float = 0.0
    engine: PrefixSettings = PrefixSettings()

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of prompts: each turn of a session, at each length of the session's first prompt."""
        first = self.first
        turns = self.turns
        nodes = max(NODES // turns, 2)
        even = np.arange(nodes) * 2.0 + 1.0 - nodes
        spread = even / np.sqrt((nodes**2 - 1.0) / 3.0)  # has the standard deviation 1
        begins = first.input_mean + first.input_std * spread
        turn = np.repeat(np.arange(turns), begins.size)
        prompt = np.tile(begins, turns) + turn * (first.output_mean + self.turn_tokens)
        # the last token of an answer is not in the cache, because no pass has read it
        matched = np.where(turn > 0, prompt - self.turn_tokens - 1.0, np.minimum(self.prefix, prompt))
        return Kinds(prompt, matched, np.full(prompt.size, 1.0 / prompt.size), turn > 0)

    @property
    def think_of_all_s(self) -> float:
        """Mean think time per request in seconds, over all requests of a session."""
        return self.think_s * (self.turns - 1) / self.turns

    @property
    def prompts(self) -> PromptTokens:
        """Mean and standard deviation of the prompt tokens, over all turns of all sessions."""
        k = self.kinds
        mean = float(k.weight @ k.prompt)
        return PromptTokens(mean, float(np.sqrt(k.weight @ (k.prompt - mean) ** 2)))

    def shared(self, law: HitLaw) -> float:
        """Mean number of tokens per running request that belong to the common prefix. They are cached only
        once for all requests.
        """
        k = self.kinds
        return self.share * float(k.weight @ law.hits(np.minimum(self.prefix, k.prompt), k.prompt))

    def cached(self, law: HitLaw, sequences: float, lengths: Lengths, request_s: Array) -> CachedPrompts:
        """The computed and the cached part of the prompts, at each running batch.

        - sequences: number of requests whose KV caches fit in memory.
        - request_s: seconds of server time per request, over ``[running batch]``.
        """
        k = self.kinds
        running = np.arange(1.0, request_s.size + 1)
        shared = self.shared(law)
        of_session = law.hits(k.matched, k.prompt)
        of_prefix = law.hits(np.minimum(self.prefix, k.prompt), k.prompt)
        free_tokens = np.maximum(sequences - running, 0.0) * (lengths.context - shared)
        cached_requests = running + free_tokens / (lengths.input_mean - shared + lengths.output_mean)
        # a prompt finds the context of its session, or else the common prefix if another request has it
        prefix_chance = self.share * (1.0 - (1.0 - self.share) ** cached_requests)
        session_chance = self._return_probability(free_tokens * request_s, shared)
        back = np.where(k.returns, session_chance[:, None], 0.0)
        first = (1.0 - back) * prefix_chance[:, None]

        def mean_if_found(value: Callable[[Array], Array]) -> Array:
            """Mean over all prompts of a function of the cached tokens. The function counts as 0 if no tokens
            are cached.
            """
            return (back * value(of_session) + first * value(of_prefix)) @ k.weight

        mean, std = self.prompts
        hit_tokens = mean_if_found(lambda hits: hits)
        saved = mean_if_found(lambda hits: hits * (2.0 * k.prompt - hits))  # from the square
        square = mean**2 + std**2 - saved[0]
        read = mean - hit_tokens
        deviation = float(np.sqrt(max(square - read[0] ** 2, 0.0)))
        nothing = 1.0 - back[0] - first[0]
        computed = [k.prompt - of_session, k.prompt - of_prefix, k.prompt]
        chance = np.concatenate([back[0], first[0], nothing])
        room_of_sessions = sequences * (lengths.context - shared)
        return CachedPrompts(
            law=law,
            read=read,
            hit_rate=hit_tokens / mean,
            pairs=mean_if_found(lambda hits: hits * (k.prompt - hits)),
            cv=deviation / float(read[0]),
            lengths=np.concatenate(computed),
            chance=chance * np.tile(k.weight, 3),
            room_tokens=room_of_sessions + float(of_prefix.max()),
        )

    def _return_probability(self, cached: Array, shared: float) -> Array:
        """Probability that a session returns before its context is evicted.

        - cached: idle tokens that fit in the cache, times seconds of the server per request.

        A context is evicted at the age t. Think times are exponentially distributed with the mean Z. The
        context of a session that returns therefore stays in the cache for Z (1 - exp(-t/Z)) on average. The
        last context of each session stays for t.
        """
        if not self.think_s:
            return np.ones_like(cached)
        k = self.kinds
        last = k.prompt[-k.prompt.size // self.turns :]
        ages = np.concatenate([[0.0], np.geomspace(1e-4, 50.0, AGES)])  # in think times
        returning = float((k.weight * k.returns) @ (k.matched - shared))
        ending = (float(last.mean()) + self.first.output_mean - shared) / self.turns
        chance = -np.expm1(-ages)
        return np.interp(cached / self.think_s, returning * chance + ending * ages, chance)
