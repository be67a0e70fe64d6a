"""Compares two ways to get the KV cache of an earlier prompt: reading it from another tier (such as host
memory), or computing it again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.answers.load.tier_question import remote_tier
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import InputError
from perfmodel.queueing.prompts import engine_requests, prompt_alone_s
from perfmodel.specs import GPUSpec
from perfmodel.specs.devices.kv_tiers import kv_tiers
from perfmodel.speculation import Scenario
from perfmodel.speculation.capacity import draft_stored_bytes

HALVINGS = 40
"""Number of bisection steps in the search for the shortest prefix."""
Seconds = Callable[[float], float]
"""A function from a number of tokens to seconds."""


@dataclass(frozen=True, slots=True)
class Offload:
    """The comparison of two ways to get the cached part of a prompt: reading it from a tier, or computing it
    again.

    - tokens: number of tokens of the cached part.
    - read_s, recompute_s: time of reading and of computing; with a draft, both include the draft's cache.
    - saved_s: time by which reading shortens the TTFT; negative if reading takes longer.
    - pays_from_tokens: length of the shortest prefix for which reading is faster than computing; None if it
      is longer than the model's largest number of positions.
    - bytes_per_token: bytes of the caches per token on one device.
    - draft_share: share of these bytes that belongs to the draft. The tier must store this share too, or the
      draft starts without a context.
    """

    tier: str
    tokens: float
    read_s: float
    recompute_s: float
    saved_s: float
    pays_from_tokens: int | None
    bytes_per_token: float
    draft_share: float
    source: str

    @property
    def sentence(self) -> str:
        """The result in words."""
        word = "pays off" if self.saved_s > 0 else "does not pay off"
        start = self.pays_from_tokens
        since = "at no length" if start is None else f"from {start} tokens on"
        both = f"{self.read_s * 1e3:.3g} ms to read, {self.recompute_s * 1e3:.3g} ms to compute"
        reading = f"reading {self.tokens:.0f} cached tokens from {self.tier}"
        return f"{reading} {word} ({both}); it pays off {since}"


def offload_of(question: TrafficQuery, scenario: Scenario, gamma: int) -> Offload:
    """The comparison for the tier of a question.

    - gamma: the longest draft; with 0, the draft's cache is not counted.

    Raises InputError for a tier that is not known for the device.
    """
    tier = question.kv_offload or ""
    store = _store(tier, scenario.machine.gpu)
    drafts = gamma > 0
    budget = float(question.limits.max_num_batched_tokens)
    costs = engine_requests(scenario)

    def kept_bytes(tokens: float) -> tuple[float, float]:
        """Bytes per device of the target's cache and of the draft's cache, for this many tokens."""
        own = float(scenario.target_shard.stored_kv_bytes(tokens))
        if not drafts:
            return own, 0.0
        return own, float(draft_stored_bytes(scenario.draft_shard, scenario.draft, tokens))

    def read_s(tokens: float) -> float:
        return store.shortest_s + sum(kept_bytes(tokens)) / store.bytes_per_s

    def recompute_s(tokens: float) -> float:
        return prompt_alone_s(scenario, tokens, costs, budget, drafts)

    tokens = _cached_tokens(question)
    target_bytes, draft_bytes = kept_bytes(tokens)
    return Offload(
        tier=tier,
        tokens=tokens,
        read_s=read_s(tokens),
        recompute_s=recompute_s(tokens),
        saved_s=recompute_s(tokens) - read_s(tokens),
        pays_from_tokens=_crossing(read_s, recompute_s, scenario.target.max_position_embeddings),
        bytes_per_token=(target_bytes + draft_bytes) / tokens,
        draft_share=draft_bytes / (target_bytes + draft_bytes),
        source=store.source,
    )


def _cached_tokens(question: TrafficQuery) -> float:
    """The number of cached tokens of a prompt. This is the shared prefix or, in a session, the mean context
    before a turn after the first.
    """
    turns = question.turns
    if turns == 1:
        return float(question.prefix_len or 0)
    of_all_turns = turns * question.lengths.input_mean
    of_further_turns = (of_all_turns - question.first.input_mean) / (turns - 1)
    return of_further_turns - float(question.turn_input_len or 0)


class Store(NamedTuple):
    """How fast a device reads from a tier.

    - shortest_s: time of the smallest read, in seconds.
    """

    bytes_per_s: float
    shortest_s: float
    source: str


def _store(tier: str, gpu: GPUSpec) -> Store:
    """How fast a device reads from a tier. Raises InputError for a tier that the device does not have."""
    remote = remote_tier(tier, "--kv-offload")
    if remote is not None:
        return Store(remote.gb_per_s * 1e9, remote.shortest_s, "as given")
    known = getattr(kv_tiers(), tier)
    if not known.is_of(gpu):
        raise InputError(f"--kv-offload: hardware/kv_tiers.yaml has no {tier} of {gpu.name}")
    return Store(known.rate.si, 0.0, known.rate.source)


def _crossing(read_s: Seconds, recompute_s: Seconds, most: int) -> int | None:
    """The length of the shortest prefix that is read faster than it is computed. The result is None if there
    is no such prefix with up to `most` tokens.
    """
    low = 1.0
    high = float(most)
    if read_s(high) >= recompute_s(high):
        return None
    if read_s(low) < recompute_s(low):
        return 1
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if read_s(middle) < recompute_s(middle):
            high = middle
        else:
            low = middle
    return math.ceil(high)
