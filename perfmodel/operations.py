"""The work of one operation of a forward pass, without times: FLOPs, bytes by kind, kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Floats = Array | float
Kind = Literal["linear", "attention", "small", "allreduce", "exchange", "upkeep", "host"]
Head = Literal["usual", "sinks", "wide", "latent"]
"""Attention heads for which engines have kernels of their own: with attention sinks, of more than `WIDE_HEAD`
values, or of a latent cache (MLA).
"""
WIDE_HEAD = 256
"""Values of a head above which FlashAttention has no kernel (vLLM 0.17, flash_attn.py:152)."""


@dataclass(slots=True)
class Cost:
    """FLOPs and bytes on one device. Fields broadcast over ``[batch, context, query]``.

    Instances never change. They are not frozen, because every answer makes some sixty of these and of `Op`,
    and freezing is slow. flops: multiply and add count as 2, in matrix products and attention only
    (element-wise FLOPs never limit a pass). weight_bytes: parameters read. kv_bytes: cached keys and values
    read. activation_bytes: all other moved bytes: inputs and outputs of each op and the new tokens' keys and
    values.
    """

    flops: Floats = 0.0
    weight_bytes: Floats = 0.0
    kv_bytes: Floats = 0.0
    activation_bytes: Floats = 0.0

    @property
    def bytes(self) -> Floats:
        """All bytes moved."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes


@dataclass(slots=True)
class Op:
    """One kind of operation, summed over its layers.

    kernels: launches in one pass. compute: the peak at which it runs. query: tokens per sequence of the pass
    (attention only, for the KV re-read factor). message_bytes: payload of each all-reduce, or values that an
    exchange sends for a token. work_items:
    independent pieces of one attention call, one KV head of one sequence each; 0 if the number does not
    matter. longer_bytes: difference between the cache of a work item of the longest sequence and the mean.
    cache: one latent per token, a recurrent state (of Mamba-2) or an indexer's keys (attention only).
    packed_weights:
    weight values that must be unpacked. columns: output columns of all GEMMs. quantisations: kernels that
    quantise their inputs (all three for linear ops only). expert_layers: layers of routed experts in the op.
    held_bytes: of all these experts.
    rows: tokens of each GEMM, or work items into which attention is cut, including the padding of a CUDA
    graph. group: rows of a kernel's tile that one query token fills (`KVLayout.group`, attention only).
    searches, searched: kernels that look for the best of a draft's tokens, and the tokens or pages of a
    sequence among which all of them look (selection of a draft only). form: number format of the weights, or
    of the cache. bytes_per_value: of the weights (linear ops only). devices: number of devices that exchange
    a message. stacked: several ops of one format on a leading axis, for their sum. head: kind of the
    attention heads, of a layer or of a pass (`host`). varying: whether the sequences of a pass have
    different numbers of query tokens (`host` only).
    """

    name: str
    kind: Kind
    kernels: Floats
    cost: Cost
    compute: str = "bf16"
    query: Floats = 1.0
    message_bytes: Floats = 0.0
    work_items: Floats = 0.0
    packed_weights: Floats = 0.0
    columns: Floats = 0.0
    quantisations: Floats = 0.0
    rows: Floats = 1.0
    expert_layers: int = 0
    held_bytes: float = 0.0
    longer_bytes: Floats = 0.0
    group: Floats = 1.0
    searches: Floats = 0.0
    searched: Floats = 0.0
    cache: Literal["heads", "latent", "state", "mamba2", "index"] = "heads"
    form: str = "bf16"
    bytes_per_value: float = 2.0
    devices: int = 0
    stacked: bool = False
    head: Head = "usual"
    varying: bool = False


def summed(values: Sequence[Floats]) -> Floats:
    """The sum of values that broadcast, smaller arrays first. No input is changed."""
    total: Floats = 0.0
    arrays = list[Array]()
    for each in values:
        if isinstance(each, np.ndarray):
            arrays.append(each)
        else:
            total = total + each
    for each in sorted(arrays, key=attrgetter("size")):
        if isinstance(total, np.ndarray) and total.shape == each.shape:
            total += each  # into the array that the line below made
        else:
            total = total + each
    return total
