"""Counts the work of one forward pass on one device of a tensor-parallel group. The counts do not depend
on the speed of the device.

`shard` computes everything that does not change between passes. `forward` counts one pass of a `PassShape`.
"""

from perfmodel.costs.cache_reads import selection
from perfmodel.costs.experts import Experts
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.layout import ONE_BOX, Degrees, RackLayout
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_shape import PassShape
from perfmodel.costs.passes import cache_upkeep, core, forward, host_launches, model_ops
from perfmodel.costs.sharding import check_tensor_parallel, largest_degree, shard
from perfmodel.costs.shards import Shard

__all__ = [
    "Degrees",
    "Experts",
    "GemmOp",
    "RackLayout",
    "ONE_BOX",
    "Op",
    "PassShape",
    "Shard",
    "cache_upkeep",
    "check_tensor_parallel",
    "core",
    "forward",
    "host_launches",
    "largest_degree",
    "model_ops",
    "selection",
    "shard",
]
