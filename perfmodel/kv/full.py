"""The draft reads the whole cache."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.kv.base import KVMethod


@dataclass(frozen=True, slots=True)
class Full(KVMethod):
    """Reads every cached token of the target's cache in every draft step."""

    source: ClassVar[str] = "Vaswani et al. 2017, arXiv 1706.03762"
    example: ClassVar[str] = "full"
    aliases: ClassVar[tuple[str, ...]] = ("dense", "none")

    budget = None
