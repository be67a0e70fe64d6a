"""The memory account of SGLang: caches = free memory after the weights - free memory before them x (1 -
mem_fraction_static).
"""

import numpy as np

from perfmodel.costs import Shard
from perfmodel.operations import Floats
from perfmodel.specs import GPUSpec, release
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.specs.engines.engines import since
from perfmodel.specs.engines.memory_facts import SGLangMemory, sglang_memory
from perfmodel.speculation.accounts.base import Account, Drafts

GIB = FACTORS["GiB"]
MIB = FACTORS["MiB"]
DIGITS = 3
"""Number of digits to which SGLang rounds its default share."""


class SGLangAccount(Account):
    """The memory account of SGLang. The default share of SGLang leaves memory for the largest prefill and for
    CUDA graphs.
    """

    complete = True

    def budget(self, gpu: GPUSpec) -> int:
        """Number of tokens of one pass that reads prompts (``--chunked-prefill-size``)."""
        tier = next(t for t in sglang_memory().tiers if gpu.memory_bytes < t.below_gib * GIB)
        return self.server.max_num_batched_tokens or tier.prefill_tokens

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        facts = sglang_memory()
        size_mib = gpu.memory_bytes / MIB
        tier = next(t for t in facts.tiers if gpu.memory_bytes < t.below_gib * GIB)
        many = shard.tensor_parallel >= facts.many_devices
        sequences = tier.graph_batch_many if many else tier.graph_batch
        tokens = max(self.server.max_num_batched_tokens or tier.prefill_tokens, facts.tiers[0].prefill_tokens)
        rest = facts.constant_mib + tokens * facts.mib_per_prefill_token
        devices = min(shard.tensor_parallel, facts.server_devices)
        rest += sequences * facts.mib_per_graph_sequence + devices * facts.mib_per_device
        if shard.groups > 1 and not shard.exchanges:
            rest += sequences * shard.groups * facts.mib_per_attention_group_sequence
        if gpu.memory_bytes > facts.large_from_gib * GIB:
            rest = max(rest, facts.large_mib)
        if not self.draft_inside:
            rest += _draft_mib(facts, drafts)
        share = round(1.0 - rest / size_mib, DIGITS)
        return share * facts.vision_factor if shard.model.model_type in facts.vision_types else share

    def available_bytes(self, gpu: GPUSpec, shard: Shard, fraction: float | None, drafts: Drafts) -> float:
        facts = sglang_memory()
        outside = facts.context_gib
        if shard.tensor_parallel > 1:
            many = shard.tensor_parallel >= facts.many_devices
            outside += facts.several_devices_gib if many else facts.two_devices_gib
        share = self.fraction(gpu, shard, drafts) if fraction is None else fraction
        return share * (gpu.memory_bytes - outside * GIB)

    @property
    def draft_inside(self) -> bool:
        version = self.server.version
        return not version or release(version) >= release(sglang_memory().draft_inside_since)

    def cache_share(self, shard: Shard) -> float:
        return _cache_share() if shard.states else 1.0

    def sequences(self, pool: Floats, cached: Floats, state: Floats, copies: Floats) -> Floats:
        """See `Account.sequences`. Recurrent states have a separate part of the memory, with slots for
        prefixes and for drafted tokens.
        """
        if not np.any(state):
            return pool / cached
        slots = since(sglang_memory().state_slots, self.server.version) + np.where(
            np.greater(copies, 1.0), copies, 0.0
        )
        of_caches = pool * _cache_share() / cached
        of_states = pool * (1.0 - _cache_share()) / (state * slots)
        return np.minimum(of_caches, of_states)

    def sequence_bytes(self, gpu: GPUSpec, shard: Shard, draft_token_bytes: float, drafted: int) -> float:
        tokens = self.length(shard)
        cached = float(shard.stored_kv_bytes(tokens, 0.0))
        for a in shard.attentions:
            if a.window is not None and not shard.model.compressed:
                pool = tokens * sglang_memory().sliding_share
                cached += (a.layers - a.shared) * a.layout.token_bytes * (pool - float(a.span(tokens)))
        return cached + draft_token_bytes * tokens


def _cache_share() -> float:
    """Share of the cache memory that is not used for states, for a model with states."""
    return 1.0 / (1.0 + sglang_memory().state_share)


def _draft_mib(facts: SGLangMemory, drafts: Drafts) -> float:
    """Memory in MiB that the default share of older versions leaves for a draft."""
    if drafts == "model":
        return facts.draft_model_mib
    return facts.draft_mib if drafts == "head" else 0.0
