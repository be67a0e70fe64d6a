"""Prompt lookup: drafts the tokens that followed the latest earlier occurrence of the last few tokens. It
runs no model.
"""

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.state import State

LONGEST = 3
"""Most tokens of a match, if the draft's name does not state it."""


class NGramDrafter:
    """Takes the longest match of up to `longest` tokens, and among equals the latest. Without a match the
    last token repeats.
    """

    models = ()

    def __init__(self, gamma: int, longest: int = LONGEST) -> None:
        if longest < 1:
            raise InputError(f"--draft: ngram must match 1 or more tokens, given {longest}")
        self.gamma, self.longest = gamma, longest

    def propose(self, state: State) -> tuple[Tensor, None]:
        """Continues each sequence as it continued before. A match near the end continues with its own
        period.
        """
        tokens, last = state.tokens, state.length[:, None] - 1
        position = torch.arange(tokens.shape[1], device=tokens.device)
        match = position < last
        matched = torch.zeros_like(tokens)
        for back in range(self.longest):
            last_tokens = tokens.gather(1, (last - back).clamp(min=0))
            match = match & (tokens.roll(back, 1) == last_tokens) & (position >= back)
            matched += match
        best = (matched * tokens.shape[1] + position).max(1, keepdim=True)
        matched_at = torch.where(best.values >= tokens.shape[1], best.indices, last - 1)
        follow = torch.arange(self.gamma, device=tokens.device) % (last - matched_at)
        return tokens.gather(1, matched_at + 1 + follow), None
