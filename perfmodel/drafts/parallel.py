"""A parallel draft: a small model drafts gamma tokens in one pass."""

from perfmodel.drafts.model import ModelDraft
from perfmodel.operations import Floats


class Parallel(ModelDraft):
    """A model that was trained to predict gamma tokens from gamma query tokens: the last token and gamma - 1
    masks.
    """

    source = "An et al. 2025 (PARD), arXiv 2504.18583"
    example = "parallel:llama-3.2-1b"
    in_one_pass = True

    @property
    def name(self) -> str:
        """The prefix ``parallel:`` and the draft model's name."""
        return f"{self.kind}:{self.model.name}"

    def query(self, gamma: Floats) -> Floats:
        """The number of query tokens, one per drafted token."""
        return gamma
