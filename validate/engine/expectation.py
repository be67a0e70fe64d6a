"""The prediction for a server at its own load: the answer of `whatif`, and the usual acceptance."""

from dataclasses import dataclass

from perfmodel.answers.point.whatif_answer import WhatIf

SAME_TEXTS = 0.1
"""Largest relative shortfall of tokens per iteration that is ignored. It is used if the expectation comes
from the rows of a file, which state no range.
"""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The prediction for a server at its own load.

    - predicted: the answer for the server's running requests, context, draft length and acceptance.
    - gained: the tokens per iteration that the server counts.
    - usual: the expected interval of the tokens per iteration; None if it is not known.
    - prompt_token_s: predicted seconds per prompt token.
    """

    predicted: WhatIf
    gained: float
    usual: tuple[float, float] | None
    prompt_token_s: float

    @property
    def interval(self) -> tuple[float, float]:
        """The predicted interval of an iteration, in seconds."""
        return self.predicted.iteration_interval or (self.predicted.iteration_s,) * 2

    @property
    def rejected(self) -> bool:
        """Whether fewer tokens are accepted than expected (see `is_rejected`)."""
        return is_rejected(self.usual, self.gained)

    @property
    def times_fewer(self) -> float:
        """The smallest expected tokens per iteration over the counted ones; 1 if the acceptance is not too
        low.
        """
        if self.usual is None or not self.rejected:
            return 1.0
        return self.usual[0] / self.gained


def is_rejected(usual: tuple[float, float] | None, gained: float) -> bool:
    """Whether fewer tokens are accepted per iteration than expected. The expected range covers the
    differences between the texts that servers generate.

    - usual: the smallest and the largest expected number; None if they are not known.
    """
    if usual is None:
        return False
    low, high = usual
    return gained < (low if low < high else low * (1.0 - SAME_TEXTS))


def usual_text(usual: tuple[float, float]) -> str:
    """The expected tokens per iteration as printed: a range, or one number if both ends are equal."""
    return " to ".join(dict.fromkeys(f"{tokens:.2f}" for tokens in usual))
