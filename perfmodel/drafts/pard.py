"""PARD: a small model that was trained to fill masked positions drafts all tokens in one pass."""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.drafts.parallel import Parallel


@dataclass(frozen=True, slots=True)
class Pard(Parallel):
    """A parallel drafter under the name of its checkpoints: ``pard:MODEL``, a model of that shape."""

    source: ClassVar[str] = "An et al. 2025 (PARD), arXiv 2504.18583"
    example: ClassVar[str] = "pard:llama-3.2-1b"
