"""The processes that share a model under torchrun; a group of one needs nothing."""

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import torch
import torch.distributed as dist

from perfmodel.errors import InputError
from perfmodel.validate.decoder.shard import Shard


class Group:
    """Rank and size, a shard to build models with, and two ways to agree."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @classmethod
    def join(cls, ranks: int, device: torch.device) -> Self:
        """The group that torchrun started. Raises InputError where it has another size."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size != ranks:
            remedy = f"launch with: torchrun --nproc-per-node {ranks} -m perfmodel validate ..."
            raise InputError(f"tensor_parallel: must be the number of processes ({size}), given {ranks}; {remedy}")
        if size > 1:
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank() if size > 1 else 0, size)

    @property
    def shard(self) -> Shard:
        """This rank's part of a model."""
        return Shard(self.rank, self.size, dist.group.WORLD if self.size > 1 else None)

    def agree(self, keys: Iterable[str] | None) -> set[str]:
        """Rank 0's keys, on every rank."""
        gathered = [sorted(keys) if keys is not None else []]
        if self.size > 1:
            dist.broadcast_object_list(gathered, src=0)
        return set(gathered[0])

    def largest(self, mine: int) -> int:
        """The largest of the ranks' numbers, on every rank."""
        gathered: list[int | None] = [mine]
        if self.size > 1:
            gathered = [None] * self.size
            dist.all_gather_object(gathered, mine)
        return max(number for number in gathered if number is not None)

    def all_true(self, mine: bool) -> bool:
        """True where it is on every rank."""
        if self.size == 1:
            return mine
        gathered: list[bool | None] = [None] * self.size
        dist.all_gather_object(gathered, mine)
        return all(gathered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.size > 1:
            dist.destroy_process_group()
