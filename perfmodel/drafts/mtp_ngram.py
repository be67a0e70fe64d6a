"""MTP continued by n-gram look-up: an MTP layer of the target drafts the first tokens, and a look-up in the
text drafts the rest.
"""

import numpy as np

from perfmodel.drafts.mtp import MTP
from perfmodel.operations import Floats
from perfmodel.specs import ModelSpec


class MTPNgram(MTP):
    """The first `steps` tokens need one pass each. A look-up on the host finds the later tokens without a
    pass.

    The user must give the acceptance by position. No acceptance is published, and the target accepts
    looked-up tokens at another rate than predicted tokens.
    """

    source = "MTP: arXiv 2412.19437; look-up: Saxena 2023 (prompt-lookup-decoding)"
    example = "mtp_ngram:steps=1"
    limits = {"steps": (1, 64)}

    steps: int = 1

    @classmethod
    def suits(cls, target: ModelSpec) -> bool:
        """False, because no acceptance is published. The user must name this kind with its options or
        acceptance.
        """
        return False

    @property
    def max_gamma(self) -> int | None:
        """None, because a look-up has no limit."""
        return None

    def passes(self, gamma: Floats) -> Floats:
        """One pass for each of the first `steps` tokens."""
        return np.minimum(gamma, self.steps)
