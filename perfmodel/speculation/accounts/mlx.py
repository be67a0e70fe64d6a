"""MLX's account: all memory that macOS gives the GPU. MLX takes memory as sequences grow and reserves
none.
"""

from perfmodel.costs import Shard
from perfmodel.specs import GPUSpec
from perfmodel.speculation.accounts.base import Account, Drafts


class MLXAccount(Account):
    """One process. While mlx_lm generates, it pins the whole working set that macOS recommends."""

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        return 1.0
