"""The memory account of MLX. It uses all memory that macOS gives to the GPU. MLX allocates memory as
sequences grow, and does not reserve memory.
"""

from perfmodel.costs import Shard
from perfmodel.specs import GPUSpec
from perfmodel.speculation.accounts.base import Account, Drafts


class MLXAccount(Account):
    """The memory account of one MLX process. While mlx_lm generates, it keeps as much memory pinned as macOS
    recommends for the GPU.
    """

    def fraction(self, gpu: GPUSpec, shard: Shard, drafts: Drafts) -> float:
        return 1.0
