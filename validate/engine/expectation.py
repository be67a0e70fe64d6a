"""What a server should do at its own load: the answer of `whatif`, and the acceptance that is usual."""

from dataclasses import dataclass

from perfmodel.answers.point.whatif_answer import WhatIf

SAME_TEXTS = 0.1
"""Difference of accepted tokens that counts as none if an expectation has no spread (rows of a file)."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a server should do at its own load.

    predicted: at its running requests, context, draft length and acceptance. gained: tokens per iteration
    that it counts, and `usual` their expected interval; None if none is known. prompt_token_s: seconds of a
    prompt token.
    """

    predicted: WhatIf
    gained: float
    usual: tuple[float, float] | None
    prompt_token_s: float

    @property
    def interval(self) -> tuple[float, float]:
        """Seconds of an iteration."""
        return self.predicted.iteration_interval or (self.predicted.iteration_s,) * 2

    @property
    def rejected(self) -> bool:
        """Whether fewer tokens are accepted than expected, by more than the texts of a server differ."""
        return is_rejected(self.usual, self.gained)

    @property
    def times_fewer(self) -> float:
        """The least expected tokens per iteration over those counted; 1 where none are missing."""
        if self.usual is None or not self.rejected:
            return 1.0
        return self.usual[0] / self.gained


def is_rejected(usual: tuple[float, float] | None, gained: float) -> bool:
    """Whether fewer tokens are accepted per iteration than expected, by more than the texts of a server
    differ. usual: the least and the most; None if they are not known.
    """
    if usual is None:
        return False
    low, high = usual
    return gained < (low if low < high else low * (1.0 - SAME_TEXTS))


def usual_text(usual: tuple[float, float]) -> str:
    """Expected tokens per iteration as printed: a range, or one number if both ends are alike."""
    return " to ".join(dict.fromkeys(f"{tokens:.2f}" for tokens in usual))
