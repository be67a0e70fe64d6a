"""What a prefix cache saves of the prompts, and what a draft costs it.

Of a prompt of L tokens whose first m are cached an engine finds whole blocks of U tokens, and never the last
token:

    hits = max(0, floor(min(m, L - 1) / U) - d) U

d is 1 where the draft starts from the target's hidden states, which no cache keeps, so that the last block is
computed again (vllm#54360). A cache is evicted least recently used first, from what the running batch leaves
of the room: among the requests of that time one has to hold the prefix, or a session has to come back.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.specs.calibrations.by_engine import DEFAULT, engine_of
from perfmodel.specs.engines.serving import PrefixBlocks, serving_engines
from perfmodel.speculation.scenario import Scenario

NODES = 16
"""Prompt lengths that stand for a uniform distribution, fewer where turns differ too."""
NEGLIGIBLE = 1e-9
AGES = 128
"""At which idle contexts are evicted, in think times: knots."""


@dataclass(frozen=True, slots=True)
class HitLaw:
    """block: tokens of the block that all cache groups share. dropped: last matched blocks that are computed
    again.
    """

    block: int
    dropped: int = 0

    def hits(self, matched: Floats, prompt: Floats) -> Array:
        """Tokens of a prompt that are not computed, of those that are cached from its first on."""
        whole = np.minimum(matched, np.subtract(prompt, 1.0)) // self.block - self.dropped
        return np.maximum(whole, 0.0) * self.block


@dataclass(frozen=True, slots=True)
class Engine:
    """What a question says of the cache. block: in place of the engine's own. keeps: no block is dropped."""

    block: int | None = None
    keeps: bool = False

    def option(self, scenario: Scenario) -> str:
        """With which the engine keeps the last block of a hit; empty where it has none."""
        return prefix_blocks(scenario).keeps

    def law(self, scenario: Scenario, gamma: int) -> HitLaw:
        """Of a server that drafts `gamma` tokens."""
        rules = prefix_blocks(scenario)
        block = self.block or (raised(scenario, gamma, rules.block) if rules.raised else rules.block)
        drops = rules.drops and scenario.draft.starts_from_features and not self.keeps
        return HitLaw(block, int(drops and gamma > 0))


def prefix_blocks(scenario: Scenario) -> PrefixBlocks:
    """Of the question's engine; of the default one for times that no serving engine made."""
    engines = serving_engines()
    return engines.get(engine_of(scenario.machine.calibration) or DEFAULT, engines[DEFAULT]).prefix


def raised(scenario: Scenario, gamma: int, block: int) -> int:
    """Tokens of a block: with recurrent layers, whole blocks until an attention layer's page holds a state.

    The state is that of one layer and sequence on one device, with an input of the convolution for each
    drafted token (vLLM, model_executor/models/config.py, recalled). Gives 2,144 and 1,648 of vllm#54360.
    """
    part = scenario.target_shard
    if part.states is None or not part.attentions:
        return block
    state = (part.states.bytes_per_sequence + gamma * part.states.bytes_per_input) / part.states.layers
    return block * math.ceil(state / (block * part.attentions[0].layout.token_bytes))


@dataclass(frozen=True, slots=True)
class CachedPrompts:
    """Prompts of a server with a prefix cache, over ``[running batch]`` from 1.

    read: mean tokens that are computed. hit_rate: share of prompt tokens that are not. pairs: mean product of
    both of a prompt. room_tokens: of all caches. cv: variation of `read` between prompts of an idle server,
    where a prompt has one of these `lengths` to read with this `chance`.
    """

    law: HitLaw
    read: Array
    hit_rate: Array
    pairs: Array
    cv: float
    room_tokens: float
    lengths: Array
    chance: Array

    def found(self, share: Array) -> Array:
        """Mean of `hit_rate` over shares of time ``[load, running batch]`` from 0, where it is as at 1."""
        return np.asarray(share @ self.at(self.hit_rate, np.arange(float(share.shape[-1]))))

    def passes(self, left: Array) -> Array:
        """Mean passes that a prompt is read in, where so many tokens are left in one."""
        return np.ceil(self.lengths / left[..., None] - NEGLIGIBLE) @ self.chance

    def at(self, values: Array, batch: Floats) -> Array:
        """Some of these between whole batches."""
        return np.asarray(np.interp(batch, np.arange(1.0, values.size + 1), values))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Prompts that differ, over ``[kind]``. prompt, matched, weight: tokens of one, those that were computed
    before, its share of all. returns: whether these are those of its own session.
    """

    prompt: Array
    matched: Array
    weight: Array
    returns: NDArray[np.bool_]


@dataclass(frozen=True)
class Reuse:
    """What requests have in common.

    first: of a session's first request. prefix, share: tokens that requests begin with alike, and the share
    of sessions that do. turns, turn_tokens: each further prompt of a session adds the answer and so many
    tokens to the one before, and think_s is the mean time between both. engine: whose cache it is.
    """

    first: Lengths
    prefix: float = 0.0
    share: float = 1.0
    turns: int = 1
    turn_tokens: float = 0.0
    think_s: float = 0.0
    engine: Engine = Engine()

    @cached_property
    def kinds(self) -> Kinds:
        """Each turn at each length of a first prompt."""
        first, turns = self.first, self.turns
        nodes = max(NODES // turns, 2)
        spread = (np.arange(nodes) * 2.0 + 1.0 - nodes) / np.sqrt((nodes**2 - 1.0) / 3.0)
        begins = first.input_mean + first.input_std * (spread if first.input_std else np.zeros(1))
        turn = np.repeat(np.arange(turns), begins.size)
        prompt = np.tile(begins, turns) + turn * (first.output_mean + self.turn_tokens)
        # the last token of an answer has passed through no layer
        matched = np.where(turn > 0, prompt - self.turn_tokens - 1.0, np.minimum(self.prefix, prompt))
        return Kinds(prompt, matched, np.full(prompt.size, 1.0 / prompt.size), turn > 0)

    @property
    def think_of_all_s(self) -> float:
        """Mean over all requests of the time before a further one of the same session."""
        return self.think_s * (self.turns - 1) / self.turns

    @property
    def prompts(self) -> tuple[float, float]:
        """Mean and standard deviation of a prompt's tokens."""
        k = self.kinds
        mean = float(k.weight @ k.prompt)
        return mean, float(np.sqrt(k.weight @ (k.prompt - mean) ** 2))

    def shared(self, law: HitLaw) -> float:
        """Mean tokens of a running request that all who begin with the prefix hold together."""
        k = self.kinds
        return self.share * float(k.weight @ law.hits(np.minimum(self.prefix, k.prompt), k.prompt))

    def cached(self, law: HitLaw, sequences: float, lengths: Lengths, request_s: Array) -> CachedPrompts:
        """The prompts that are computed. sequences: requests whose caches fit. request_s: seconds that the
        server takes for one, over ``[running batch]``.
        """
        k, n, shared = self.kinds, np.arange(1.0, request_s.size + 1), self.shared(law)
        own, common = law.hits(k.matched, k.prompt), law.hits(np.minimum(self.prefix, k.prompt), k.prompt)
        free = np.maximum(sequences - n, 0.0) * (lengths.context - shared)
        others = n + free / (lengths.input_mean - shared + lengths.output_mean)
        begins = self.share * (1.0 - (1.0 - self.share) ** others)
        back = np.where(k.returns, self._comes_back(free * request_s, shared)[:, None], 0.0)
        first = (1.0 - back) * begins[:, None]

        def of_found(value: Callable[[Array], Array]) -> Array:
            """Mean over all prompts of a value of the tokens that are found, 0 where none is."""
            return (back * value(own) + first * value(common)) @ k.weight

        mean, std = self.prompts
        found = of_found(lambda hits: hits)
        square = mean**2 + std**2 - of_found(lambda hits: hits * (2.0 * k.prompt - hits))[0]
        read = mean - found
        return CachedPrompts(
            law=law,
            read=read,
            hit_rate=found / mean,
            pairs=of_found(lambda hits: hits * (k.prompt - hits)),
            cv=float(np.sqrt(max(square - read[0] ** 2, 0.0)) / read[0]),
            lengths=np.concatenate([k.prompt - own, k.prompt - common, k.prompt]),
            chance=np.concatenate([back[0], first[0], 1.0 - back[0] - first[0]]) * np.tile(k.weight, 3),
            room_tokens=sequences * (lengths.context - shared) + float(common.max()),
        )

    def _comes_back(self, held: Array, shared: float) -> Array:
        """Chance that a session is sooner back than its context is evicted. held: idle tokens that a cache
        has room for, times seconds of the server for a request.

        A context is evicted at an age of t; with exponential times those that come back fill room for
        Z (1 - exp(-t/Z)) a request, and the last of each session for t.
        """
        if not self.think_s:
            return np.ones_like(held)
        k, last = self.kinds, self.kinds.prompt[-self.kinds.prompt.size // self.turns :]
        ages = np.concatenate([[0.0], np.geomspace(1e-4, 50.0, AGES)])
        returning = float((k.weight * k.returns) @ (k.matched - shared))
        ending = (float(last.mean()) + self.first.output_mean - shared) / self.turns
        chance = -np.expm1(-ages)
        return np.interp(held / self.think_s, returning * chance + ending * ages, chance)
