"""Prompt lookup: the tokens that followed the latest earlier occurrence of the last few tokens. No model at
all.
"""

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.state import State

LONGEST = 3
"""Tokens that are looked for where the draft's name says nothing."""


class NGramDrafter:
    """Longest match first, up to `longest` tokens; among equals the latest. Without a match, the last token
    repeats.
    """

    models = ()

    def __init__(self, gamma: int, longest: int = LONGEST) -> None:
        if longest < 1:
            raise InputError(f"--draft: ngram must match 1 or more tokens, given {longest}")
        self.gamma, self.longest = gamma, longest

    def propose(self, state: State) -> tuple[Tensor, None]:
        """Continue each sequence as it continued before; a match near the end is continued with its own
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
