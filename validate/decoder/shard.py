"""Which part of a model one tensor-parallel rank holds, and the collectives it needs."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.specs.model import ModelSpec


@dataclass(frozen=True)
class RankShard:
    """Rank `rank` of `size`; `group` is its process group, None where one process holds the whole model."""

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None

    def split(self, total: int) -> tuple[int, int]:
        """The [start, stop) that this rank holds of `total` rows."""
        width = total // self.size
        return self.rank * width, (self.rank + 1) * width

    def kv_heads(self, total: int) -> tuple[int, int]:
        """The KV heads [start, stop) of this rank: split, or one replicated head where ranks outnumber heads."""
        if total >= self.size:
            return self.split(total)
        head = self.rank * total // self.size
        return head, head + 1

    def check(self, spec: ModelSpec) -> None:
        """Refuse a size that does not divide the model."""
        for what, total in (
            ("num_attention_heads", spec.num_attention_heads),
            ("intermediate_size", spec.intermediate_size),
            ("vocab_size", spec.vocab_size),
        ):
            if total % self.size:
                raise InputError(f"--tp: must divide {what} of {spec.name} ({total}), given {self.size}")
        heads = spec.num_key_value_heads
        if max(heads, self.size) % min(heads, self.size):
            raise InputError(
                f"--tp: must divide or be a multiple of num_key_value_heads of {spec.name} ({heads}), given {self.size}"
            )

    def sum(self, x: Tensor) -> Tensor:
        """All-reduce in place."""
        if self.size > 1:
            dist.all_reduce(x, group=self.group)
        return x

    def gather_last(self, x: Tensor) -> Tensor:
        """Concatenate the last dimension over ranks."""
        if self.size == 1:
            return x
        parts = [torch.empty_like(x) for _ in range(self.size)]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return torch.cat(parts, dim=-1)

    def of_all(self, mine: object) -> list[Any]:
        """What every rank gives, in their order: the same list on all of them, so that they can agree."""
        given = [mine] * self.size
        if self.size > 1:
            dist.all_gather_object(given, mine, group=self.group)
        return given
