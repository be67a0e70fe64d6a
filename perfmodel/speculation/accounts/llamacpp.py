"""The memory account of llama.cpp. It uses all memory of the device except for the compute buffer and a
margin. The token embedding is in host memory.
"""

from perfmodel.costs import Shard
from perfmodel.specs import GPUSpec
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.specs.engines.memory_facts import llamacpp_memory
from perfmodel.speculation.accounts.base import Account, Drafts


class LlamaCppAccount(Account):
    """The memory account of llama.cpp. The fp32 logits of one micro-batch are the largest part of its compute
    buffer.
    """

    complete = True

    def budget(self, gpu: GPUSpec) -> int:
        """Number of tokens of one pass that reads prompts (``--ubatch-size``)."""
        return self.server.max_num_batched_tokens or round(llamacpp_memory().ubatch)

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        return 1.0

    def available_bytes(self, gpu: GPUSpec, shard: Shard, fraction: float | None, drafts: Drafts) -> float:
        facts = llamacpp_memory()
        rest = facts.recurrent_rest_mib if shard.states else facts.rest_mib
        buffer = facts.ubatch * shard.model.vocab_size * facts.logit_bytes + rest * FACTORS["MiB"]
        taken = max(self.server.devices, 1) * buffer + self.margin_bytes
        return (1.0 if fraction is None else fraction) * gpu.memory_bytes - taken

    @property
    def margin_bytes(self) -> float:
        """The margin of ``--fit-target`` on each device. ``-ngl`` turns it off."""
        return max(self.server.devices, 1) * llamacpp_memory().margin_mib * FACTORS["MiB"]

    def host_bytes(self, shard: Shard) -> float:
        if shard.model.tie_word_embeddings:
            return 0.0
        form = shard.precision.weights.of("embedding")
        return shard.model.embedding_params * form.bytes_per_value / shard.tensor_parallel
