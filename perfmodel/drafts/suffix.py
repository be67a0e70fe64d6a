"""Suffix decoding: drafts the tokens that followed the same words in the prompt or in earlier outputs, on the
host.
"""

from dataclasses import dataclass
from typing import ClassVar

from perfmodel.drafts.ngram import NGram


@dataclass(frozen=True, slots=True)
class Suffix(NGram):
    """Only verification costs time, as with n-gram drafts; engines choose a draft length per sequence.

    gamma is then the mean length. Give the acceptance as hit probability x run length, or by position.
    """

    source: ClassVar[str] = "Oliaro et al. 2024 (SuffixDecoding), arXiv 2411.04975"
    example: ClassVar[str] = "suffix"
