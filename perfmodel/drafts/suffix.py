"""Suffix decoding: the draft is the tokens that followed the latest tokens in the prompt or in earlier
outputs. The host finds them.
"""

from perfmodel.drafts.ngram import NGram


class Suffix(NGram):
    """Only verification costs time, as with n-gram drafts; engines choose a draft length per sequence.

    gamma is the mean of these lengths. State the acceptance as for n-gram drafts, or by position.
    """

    source = "Oliaro et al. 2024 (SuffixDecoding), arXiv 2411.04975"
    example = "suffix"
