"""Suffix decoding: the host searches for the latest tokens in the prompt and in earlier outputs, and the
tokens that followed them are the draft.
"""

from perfmodel.drafts.ngram import NGram


class Suffix(NGram):
    """Only verification costs time, as with n-gram drafts.

    Engines choose a draft length for each sequence, and gamma is the mean of these lengths. The user gives
    the acceptance as for n-gram drafts, or by position.
    """

    source = "Oliaro et al. 2024 (SuffixDecoding), arXiv 2411.04975"
    example = "suffix"
