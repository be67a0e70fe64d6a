"""The processes that share a model under torchrun agree before each goes on; a group of one needs nothing."""

from collections.abc import Iterable

import torch.distributed as dist

from perfmodel.validate.decoder.shard import RankShard


class RankGroup:
    """Rank and size of a shard, and ways to agree."""

    def __init__(self, shard: RankShard) -> None:
        self.shard, self.rank, self.size = shard, shard.rank, shard.size

    def agree(self, keys: Iterable[str] | None) -> set[str]:
        """Rank 0's keys, on every rank."""
        gathered = [sorted(keys) if keys is not None else []]
        if self.size > 1:
            dist.broadcast_object_list(gathered, src=0)
        return set(gathered[0])

    def largest(self, mine: int) -> int:
        """The largest of the ranks' numbers, on every rank."""
        return max(self._all(mine))

    def all_true(self, mine: bool) -> bool:
        """True where it is on every rank."""
        return all(self._all(mine))

    def _all(self, mine: int) -> list[int]:
        gathered = [mine] * self.size
        if self.size > 1:
            dist.all_gather_object(gathered, mine)
        return gathered
