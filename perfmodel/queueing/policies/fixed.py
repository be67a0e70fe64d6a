"""A policy that always uses the same draft length."""

from collections.abc import Sequence

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica


class Fixed(LengthPolicy):
    """Drafts `gamma` tokens in every iteration. 0 is the baseline."""

    help = "a number is used throughout"
    source = "num_speculative_tokens of vLLM, speculative-num-draft-tokens of SGLang"

    gamma: int

    @property
    def tokens(self) -> int:
        """The draft length."""
        return self.gamma

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One choice: the fixed length at every load."""
        return [Choice(self, self.gamma, replica.passes[self.gamma], replica.everywhere)]
