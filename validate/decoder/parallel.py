"""Tensor parallelism under torchrun: which shard this process holds, for the target and for a smaller draft group."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from perfmodel.errors import InputError
from perfmodel.validate.decoder.recording import drop_all
from perfmodel.validate.decoder.shard import RankShard


def local_device(kind: str) -> torch.device:
    """This process's device of a kind: the CUDA device of its local rank, or the CPU."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)


@contextmanager
def joined(size: int, device: torch.device, what: str = "--tp") -> Iterator[RankShard]:
    """The shard of this process among the `size` that torchrun started; one process needs no launcher.

    Raises InputError where the launcher started another number than `what` asks for.
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
        dist.barrier()  # gloo may abort a rank that leaves while another still talks to it
    finally:
        drop_all()
        dist.destroy_process_group()


def for_draft(shard: RankShard, size: int) -> RankShard:
    """The shard of a draft that is split over `size` ranks only.

    Every group of `size` neighbouring ranks runs the whole draft, so that each rank has the drafted tokens without
    asking another. All ranks must call this together.
    """
    if not 1 <= size <= shard.size or shard.size % size:
        raise InputError(f"--draft-tp: must divide --tp {shard.size}, given {size}")
    if size == shard.size:
        return shard
    groups = [dist.new_group(list(range(first, first + size))) for first in range(0, shard.size, size)]
    return RankShard(shard.rank % size, size, groups[shard.rank // size])
