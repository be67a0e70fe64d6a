"""PARD: a small model that was trained to fill masked positions drafts all tokens in one pass."""

from perfmodel.drafts.parallel import Parallel


class Pard(Parallel):
    """A parallel drafter under the name of its checkpoints: ``pard:MODEL``, a model of that shape."""

    source = "An et al. 2025 (PARD), arXiv 2504.18583"
    example = "pard:llama-3.2-1b"
