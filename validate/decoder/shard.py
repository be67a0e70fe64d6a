"""Implements tensor parallelism under torchrun: the part of a model on each rank, the collectives, and the
start of the process group.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec
from perfmodel.validate.decoder.capture import drop_all


class RankRange(NamedTuple):
    """The rows or heads of a rank, from `start` to `stop` - 1."""

    start: int
    stop: int


@dataclass(frozen=True)
class RankShard:
    """One of `size` tensor-parallel ranks.

    - rank: the number of this rank, from 0.
    - group: the process group of the ranks; None if one process has the whole model.
    """

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None

    def split(self, total: int) -> RankRange:
        """The part of `total` rows that this rank has."""
        width = total // self.size
        return RankRange(self.rank * width, (self.rank + 1) * width)

    def kv_heads(self, total: int) -> RankRange:
        """The part of `total` KV heads that this rank has. If there are more ranks than heads, it is one head
        that several ranks share.
        """
        first = self.rank * total // self.size
        return RankRange(first, first + max(1, total // self.size))

    def check(self, spec: ModelSpec) -> None:
        """Raises InputError if a model cannot be divided into `size` equal parts."""
        divided = {
            "num_attention_heads": spec.num_attention_heads,
            "intermediate_size": spec.intermediate_size,
            "vocab_size": spec.vocab_size,
        }
        if spec.moe:
            divided["moe_intermediate_size"] = spec.moe.intermediate_size
        for what, total in divided.items():
            if total % self.size:
                raise InputError(f"--tp: must divide {what} of {spec.name} ({total}), given {self.size}")
        heads = spec.num_key_value_heads
        if max(heads, self.size) % min(heads, self.size):
            raise InputError(
                f"--tp: must divide or be a multiple of num_key_value_heads of {spec.name} ({heads}), "
                f"given {self.size}"
            )

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of `x` over all ranks (all-reduce), in place."""
        if self.size > 1:
            dist.all_reduce(x, group=self.group)
        return x

    def gather_last(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenates the `x` of all ranks along the last dimension."""
        if self.size == 1:
            return x
        parts = [torch.empty_like(x) for _ in range(self.size)]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return torch.cat(parts, dim=-1)

    def of_all(self, mine: object) -> list[Any]:
        """The values `mine` of all ranks, in the order of ranks. Every rank gets the same list."""
        values = [mine] * self.size
        if self.size > 1:
            dist.all_gather_object(values, mine, group=self.group)
        return values


def local_device(kind: str) -> torch.device:
    """The device of this process: the CUDA device of its local rank, or the CPU.

    - kind: ``cuda`` or ``cpu``.
    """
    if kind == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device(kind)


@contextmanager
def joined(size: int, device: torch.device, what: str = "--tp") -> Iterator[RankShard]:
    """Joins the process group and returns the shard of this process. A single process needs no torchrun.

    - size: the number of processes that torchrun must have started.
    - what: the flag that an error names.

    Raises InputError if another number of processes was started.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != size:
        launcher = f"torchrun --nproc-per-node {size} -m perfmodel validate ..."
        raise InputError(
            f"{what}: must be the number of processes ({started}), given {size}; start them with: {launcher}"
        )
    if size == 1:
        yield RankShard()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield RankShard(dist.get_rank(), size, dist.group.WORLD)
        dist.barrier()  # gloo can abort a rank that leaves while another rank still sends to it
    finally:
        drop_all()
        dist.destroy_process_group()


def for_draft(shard: RankShard, size: int) -> RankShard:
    """The shard of a draft that is split over only `size` ranks.

    Every group of `size` neighbouring ranks runs the whole draft. Each rank therefore has the drafted tokens
    without further communication. All ranks must call this function together. Raises InputError if the
    target's ranks cannot be divided into such groups.
    """
    if not 1 <= size <= shard.size or shard.size % size:
        raise InputError(f"--draft-tp: must divide --tp {shard.size}, given {size}")
    if size == shard.size:
        return shard
    groups = [dist.new_group(list(range(first, first + size))) for first in range(0, shard.size, size)]
    return RankShard(shard.rank % size, size, groups[shard.rank // size])
