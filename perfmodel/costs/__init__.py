"""Counts the work of one forward pass on one device of a tensor-parallel group, without any device's speed.

`shard` computes everything that does not change between passes; `forward` counts one pass.
"""

from perfmodel.costs.gemms import Experts
from perfmodel.costs.passes import core, forward, gemm, selection
from perfmodel.costs.shards import ONE_BOX, Layout, Shard, check_tensor_parallel, largest_degree, shard

__all__ = [
    "Experts",
    "Layout",
    "ONE_BOX",
    "Shard",
    "check_tensor_parallel",
    "core",
    "forward",
    "gemm",
    "largest_degree",
    "selection",
    "shard",
]
